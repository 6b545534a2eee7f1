// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsource

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/lifecycle"
	"github.com/tombolo-dev/tombolo/provider/apierr"
)

// Options are what a Source is made of.
type Options struct {
	// Client reads pods. Nothing is ever written with it.
	Client kubernetes.Interface
	// Node is the name of the node whose pods are watched.
	Node string
	// Clock times the back-off between failed lists and watches.
	Clock clock.Clock
	// Logger may be nil.
	Logger *slog.Logger
}

// Source is the pod source of one node.
type Source struct {
	client    corev1client.PodsGetter
	node      string
	reflector *cache.Reflector
	store     *store
	events    chan lifecycle.PodEvent
	clock     clock.Clock
	logger    *slog.Logger
}

var _ lifecycle.PodSource = (*Source)(nil)

// New makes a source. It does nothing before Run.
func New(o Options) *Source {
	lw := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			opts.FieldSelector = ofNode(o.Node).String()
			return o.Client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, opts)
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			opts.FieldSelector = ofNode(o.Node).String()
			return o.Client.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, opts)
		},
	}, o.Client)
	logger := o.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	s := newStore()
	return &Source{
		client: o.Client.CoreV1(),
		node:   o.Node,
		reflector: cache.NewReflectorWithOptions(lw, &v1.Pod{}, s, cache.ReflectorOptions{
			Name:  "pods",
			Clock: o.Clock,
		}),
		store:  s,
		events: make(chan lifecycle.PodEvent),
		clock:  o.Clock,
		logger: logger,
	}
}

// ofNode selects the pods that are bound to the node.
func ofNode(node string) fields.Selector {
	return fields.OneTermEqualSelector("spec.nodeName", node)
}

// Events delivers the changes. The channel is never closed.
func (s *Source) Events() <-chan lifecycle.PodEvent { return s.events }

// Run watches and delivers until ctx ends. It is called once.
func (s *Source) Run(ctx context.Context) {
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(func() { s.reflector.RunWithContext(ctx) })
	parts.Go(func() { s.confirm(ctx) })
	s.deliver(ctx)
}

// deliver compares the newest snapshot with what the consumer has, each time there is a newer one and the consumer
// took everything before.
func (s *Source) deliver(ctx context.Context) {
	var delivered snapshot
	announced := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.store.changed:
		}
		current, synced := s.store.read()
		events := diff(delivered, current)
		delivered = current
		if synced && !announced {
			announced = true
			s.logger.Info("Pod source synced", "pods", len(current))
			events = append(events, lifecycle.PodEvent{Type: lifecycle.SourceSynced})
		}
		for _, event := range events {
			select {
			case <-ctx.Done():
				return
			case s.events <- event:
			}
		}
	}
}

// Live reads the pod from the API itself, past every cache, and is NotFound when no pod of that name is bound to this
// node any more. Other errors have the classes of apierr.
func (s *Source) Live(ctx context.Context, namespace, name string) (*v1.Pod, error) {
	return Live(ctx, s.client, s.node, namespace, name)
}

// Live reads one pod of a node from the API itself, past every cache. It lists where one would expect a get: to a node,
// the Node authorizer answers a get of a pod that is gone with "forbidden", so that only a list which names the node
// can prove an absence.
func Live(ctx context.Context, client corev1client.PodsGetter, node, namespace, name string) (*v1.Pod, error) {
	list, err := client.Pods(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.AndSelectors(
			fields.OneTermEqualSelector(metav1.ObjectNameField, name),
			ofNode(node),
		).String(),
	})
	if err != nil {
		return nil, fmt.Errorf("reading pod %s/%s: %w", namespace, name, apierr.Classify(err))
	}
	for i := range list.Items {
		if pod := &list.Items[i]; pod.Name == name && pod.Spec.NodeName == node {
			return pod, nil
		}
	}
	return nil, fmt.Errorf("reading pod %s/%s: %w on node %s", namespace, name, errdefs.ErrNotFound, node)
}
