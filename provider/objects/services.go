// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// errServicesUnread is the kubelet's.
var errServicesUnread = &waitError{
	text: "services have not yet been read at least once, cannot construct envvars", class: errdefs.ErrUnavailable,
}

// services are all Services of the cluster: which of them a pod is told of is known only when it starts.
type services struct {
	reflector *cache.Reflector
	clock     clock.Clock
	// read is closed when all of them were read once.
	read chan struct{}

	mu sync.Mutex
	// all are the services by namespace and name.
	all map[string]map[string]*v1.Service
}

var _ cache.ReflectorStore = (*services)(nil)

func newServices(o Options) *services {
	s := &services{clock: o.Clock, read: make(chan struct{}), all: map[string]map[string]*v1.Service{}}
	lw := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return o.Client.CoreV1().Services(metav1.NamespaceAll).List(ctx, opts)
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			return o.Client.CoreV1().Services(metav1.NamespaceAll).Watch(ctx, opts)
		},
	}, o.Client)
	s.reflector = cache.NewReflectorWithOptions(lw, &v1.Service{}, s, cache.ReflectorOptions{Name: "services", Clock: o.Clock})
	return s
}

func (s *services) run(ctx context.Context) { s.reflector.RunWithContext(ctx) }

// in returns the services of a namespace, sorted by name.
func (s *services) in(ctx context.Context, namespace string) ([]*v1.Service, error) {
	if err := await(ctx, s.clock, s.read); err != nil {
		return nil, err
	}
	select {
	case <-s.read:
	default:
		return nil, errServicesUnread
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	named := s.all[namespace]
	out := make([]*v1.Service, 0, len(named))
	for _, name := range slices.Sorted(maps.Keys(named)) {
		out = append(out, named[name])
	}
	return out, nil
}

// Add takes a new service.
func (s *services) Add(obj any) error { return s.put(obj) }

// Update takes a new version of a service.
func (s *services) Update(obj any) error { return s.put(obj) }

func (s *services) put(obj any) error {
	service, err := serviceOf(obj)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	keep(s.all, service)
	return nil
}

// Delete drops a service.
func (s *services) Delete(obj any) error {
	service, err := serviceOf(obj)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	named := s.all[service.Namespace]
	delete(named, service.Name)
	if len(named) == 0 {
		delete(s.all, service.Namespace)
	}
	return nil
}

// Replace takes a complete list.
func (s *services) Replace(list []any, _ string) error {
	all := map[string]map[string]*v1.Service{}
	for _, obj := range list {
		service, err := serviceOf(obj)
		if err != nil {
			return err
		}
		keep(all, service)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = all
	select {
	case <-s.read:
	default:
		close(s.read)
	}
	return nil
}

// Resync does nothing: readers ask for the newest state.
func (s *services) Resync() error { return nil }

func keep(all map[string]map[string]*v1.Service, service *v1.Service) {
	if all[service.Namespace] == nil {
		all[service.Namespace] = map[string]*v1.Service{}
	}
	all[service.Namespace][service.Name] = service
}

// serviceOf checks what came and keeps no more of it than pods are told: there may be thousands.
func serviceOf(obj any) (*v1.Service, error) {
	service, ok := obj.(*v1.Service)
	if !ok {
		return nil, fmt.Errorf("watching services: got a %T", obj)
	}
	return &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, Name: service.Name, UID: service.UID},
		Spec:       v1.ServiceSpec{Type: service.Spec.Type, ClusterIP: service.Spec.ClusterIP, Ports: service.Spec.Ports},
	}, nil
}
