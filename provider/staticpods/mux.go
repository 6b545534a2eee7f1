// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package staticpods

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/lifecycle"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// Options are what a Mux is made of. All fields but Dir, URL, Header and Logger are required.
type Options struct {
	// API is the source of the pods that are in the API.
	API lifecycle.PodSource
	// Dir is a directory of manifests, URL a page with one that is read with Header. Each may be empty.
	Dir    string
	URL    string
	Header http.Header
	// NodeName is the name of the node. Node returns its object, nil while it is not known: mirror pods belong to it.
	NodeName string
	Node     func() *v1.Node
	// MayRun says whether a container of the pod of that UID may run. A mirror pod stays until it says no.
	MayRun func(types.UID) bool
	// Client makes and deletes mirror pods.
	Client   kubernetes.Interface
	Recorder record.EventRecorder
	Clock    clock.WithTicker
	// Logger may be nil.
	Logger *slog.Logger
}

// Mux is the pods of the API and the static pods in one. It is synced when all of its parts are.
type Mux struct {
	api     lifecycle.PodSource
	feeds   []*feed
	mirrors *mirrors
	events  chan lifecycle.PodEvent
	unready atomic.Int32
}

var _ lifecycle.PodSource = (*Mux)(nil)

// New makes a Mux. It does nothing before Run.
func New(o Options) *Mux {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	m := &Mux{
		api: o.API, events: make(chan lifecycle.PodEvent),
		mirrors: &mirrors{
			client: o.Client.CoreV1(), node: o.Node, mayRun: o.MayRun, clock: o.Clock, log: log, wake: make(chan struct{}, 1),
			static: map[types.NamespacedName]*v1.Pod{}, present: map[types.NamespacedName]*v1.Pod{},
			left: map[types.NamespacedName]*departure{},
		},
	}
	node := &v1.ObjectReference{Kind: "Node", Name: o.NodeName}
	add := func(name string, from origin) {
		m.feeds = append(m.feeds, &feed{
			name: name, origin: from, node: o.NodeName, clock: o.Clock, log: log,
			complain: func(origin string, err error) {
				o.Recorder.Eventf(node, v1.EventTypeWarning, "InvalidStaticPod", "%s: %v", origin, err)
			},
		})
	}
	if o.Dir != "" {
		add(o.Dir, &directory{path: o.Dir, clock: o.Clock})
	}
	if o.URL != "" {
		add(o.URL, &page{url: o.URL, header: o.Header, client: &http.Client{}})
	}
	m.unready.Store(int32(1 + len(m.feeds))) //nolint:gosec // at most three.
	return m
}

// Events delivers the changes. The channel is never closed.
func (m *Mux) Events() <-chan lifecycle.PodEvent { return m.events }

// Live reads a pod from the API. A mirror pod has another UID than the static pod of its name.
func (m *Mux) Live(ctx context.Context, namespace, name string) (*v1.Pod, error) {
	return m.api.Live(ctx, namespace, name)
}

// Run delivers until ctx ends. It is called once.
func (m *Mux) Run(ctx context.Context) {
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(func() { m.api.Run(ctx) })
	parts.Go(func() { m.mirrors.run(ctx) })
	for _, f := range m.feeds {
		parts.Go(func() { f.run(ctx, m.static) })
	}
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-m.api.Events():
			if m.fromAPI(ctx, event) != nil {
				return
			}
		}
	}
}

// fromAPI takes an event of the API's pods. Mirror pods are not run: what they show of a static pod's status is told as
// that pod's.
func (m *Mux) fromAPI(ctx context.Context, event lifecycle.PodEvent) error {
	if event.Pod == nil || !isMirror(event.Pod) {
		event.Pod = honest(event.Pod)
		return m.send(ctx, event)
	}
	static := m.mirrors.saw(event.Pod, event.Type != lifecycle.PodRemoved)
	if static == nil {
		return nil
	}
	return m.send(ctx, lifecycle.PodEvent{Type: lifecycle.PodReconciled, Pod: disguised(event.Pod)})
}

// static takes an event of a static pod.
func (m *Mux) static(ctx context.Context, event lifecycle.PodEvent) error {
	if event.Pod != nil {
		m.mirrors.want(event.Pod, event.Type != lifecycle.PodRemoved)
	}
	return m.send(ctx, event)
}

func (m *Mux) send(ctx context.Context, event lifecycle.PodEvent) error {
	if event.Type == lifecycle.SourceSynced && m.unready.Add(-1) > 0 {
		return nil
	}
	select {
	case m.events <- event:
		return nil
	case <-ctx.Done():
		return errors.New("stopped")
	}
}

// honest corrects a pod of the API that claims to be a static one.
func honest(pod *v1.Pod) *v1.Pod {
	if pod == nil || !podrules.Static(pod) {
		return pod
	}
	pod = pod.DeepCopy()
	pod.Annotations[AnnotationSource] = "api"
	return pod
}

// disguised is a mirror pod with the identity of its static pod. That it is being deleted means nothing to the static pod.
func disguised(mirror *v1.Pod) *v1.Pod {
	out := *mirror
	out.UID = staticUID(mirror)
	out.DeletionTimestamp, out.DeletionGracePeriodSeconds = nil, nil
	return &out
}
