// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"sync"

	vkerrdefs "github.com/virtual-kubelet/virtual-kubelet/errdefs"
	"github.com/virtual-kubelet/virtual-kubelet/node"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/lifecycle"
)

// PodView is what the engine knows of the desired pods. No method blocks; the results are shared.
type PodView interface {
	// Pods returns the pods that are desired, those that are going away included.
	Pods() []*v1.Pod
	// Pod returns one of them by name: of several the one that the API has now.
	Pod(namespace, name string) (*v1.Pod, bool)
	// Status returns the status last computed for the pod of that UID.
	Status(uid types.UID) (v1.PodStatus, bool)
}

// Provider hands what a pod source says over to the lifecycle engine, which sees it as its pod source. It answers
// questions about pods from the engine's view.
type Provider struct {
	source lifecycle.PodSource
	events chan lifecycle.PodEvent

	mu   sync.RWMutex
	view PodView
}

var (
	_ node.PodLifecycleHandler = (*Provider)(nil)
	_ lifecycle.PodSource      = (*Provider)(nil)
)

// New makes a provider that is driven by source. It does nothing before Run.
func New(source lifecycle.PodSource) *Provider {
	return &Provider{source: source, events: make(chan lifecycle.PodEvent)}
}

// SetView tells where answers come from: from the engine that this provider is the pod source of.
func (p *Provider) SetView(view PodView) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.view = view
}

// Run runs the source and passes on what it says until ctx ends.
func (p *Provider) Run(ctx context.Context) {
	var source sync.WaitGroup
	defer source.Wait()
	source.Go(func() { p.source.Run(ctx) })
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-p.source.Events():
			if p.dispatch(ctx, event) != nil {
				return // ctx ended
			}
		}
	}
}

// dispatch makes of an event of the source what virtual-kubelet would call. Two kinds have no such call: that only the
// status changed, and that an object is gone, which DeletePod could not tell from a deletion that was asked for.
func (p *Provider) dispatch(ctx context.Context, event lifecycle.PodEvent) error {
	switch {
	case event.Type == lifecycle.PodAdded:
		return p.CreatePod(ctx, event.Pod)
	case event.Type == lifecycle.PodUpdated && event.Pod.DeletionTimestamp != nil:
		return p.DeletePod(ctx, event.Pod)
	case event.Type == lifecycle.PodUpdated:
		return p.UpdatePod(ctx, event.Pod)
	default:
		return p.send(ctx, event)
	}
}

// send waits until the engine takes the event. The engine's loop never blocks, so this is short.
func (p *Provider) send(ctx context.Context, event lifecycle.PodEvent) error {
	select {
	case p.events <- event:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Events delivers the changes to the engine.
func (p *Provider) Events() <-chan lifecycle.PodEvent { return p.events }

// Live reads the pod from the API itself, past every cache.
func (p *Provider) Live(ctx context.Context, namespace, name string) (*v1.Pod, error) {
	return p.source.Live(ctx, namespace, name)
}

// CreatePod tells the engine of a pod. It returns as soon as the engine has heard of it: whatever becomes of the pod
// is told by its status. The only error is that ctx ended.
func (p *Provider) CreatePod(ctx context.Context, pod *v1.Pod) error {
	return p.send(ctx, lifecycle.PodEvent{Type: lifecycle.PodAdded, Pod: pod})
}

// UpdatePod tells the engine of a new version of a pod.
func (p *Provider) UpdatePod(ctx context.Context, pod *v1.Pod) error {
	return p.send(ctx, lifecycle.PodEvent{Type: lifecycle.PodUpdated, Pod: pod})
}

// DeletePod tells the engine that a pod shall go: within its grace period if it says so itself, or because its object
// no longer exists. It may be called again. The engine deletes the object after the last container has stopped.
func (p *Provider) DeletePod(ctx context.Context, pod *v1.Pod) error {
	if pod.DeletionTimestamp != nil {
		return p.UpdatePod(ctx, pod)
	}
	return p.send(ctx, lifecycle.PodEvent{Type: lifecycle.PodRemoved, Pod: pod})
}

// GetPod returns a copy of the pod that has the name now, with its newest status. While an older pod of the same name is
// going away it is never that one.
func (p *Provider) GetPod(_ context.Context, namespace, name string) (*v1.Pod, error) {
	view := p.viewed()
	if view == nil {
		return nil, notFound(namespace, name)
	}
	pod, ok := view.Pod(namespace, name)
	if !ok {
		return nil, notFound(namespace, name)
	}
	return withStatus(view, pod), nil
}

// GetPodStatus returns a copy of the newest status of the pod that has the name now.
func (p *Provider) GetPodStatus(ctx context.Context, namespace, name string) (*v1.PodStatus, error) {
	pod, err := p.GetPod(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	return &pod.Status, nil
}

// GetPods returns copies of all desired pods.
func (p *Provider) GetPods(context.Context) ([]*v1.Pod, error) {
	view := p.viewed()
	if view == nil {
		return nil, nil
	}
	pods := view.Pods()
	out := make([]*v1.Pod, len(pods))
	for i, pod := range pods {
		out[i] = withStatus(view, pod)
	}
	return out, nil
}

func (p *Provider) viewed() PodView {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.view
}

// withStatus returns a copy of the pod with the status that the engine computed for its UID, if there is one.
func withStatus(view PodView, pod *v1.Pod) *v1.Pod {
	out := pod.DeepCopy()
	if status, ok := view.Status(pod.UID); ok {
		status.DeepCopyInto(&out.Status)
	}
	return out
}

func notFound(namespace, name string) error {
	return vkerrdefs.NotFoundf("pod %s/%s is not known on this node", namespace, name)
}
