// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/lifecycle/status"
)

// API is the pods of an API server. It is the status sink of the engine, and source makes watches of it. Stored pods
// are never changed: each change stores a new one.
type API struct {
	gate
	trace *Trace

	state   sync.Mutex
	pods    map[types.NamespacedName]*v1.Pod
	version int
	changed chan struct{}
	// gap says that watches tell nothing, hidden that lists are empty.
	gap, hidden bool
	// wrote is called after each change of a status, vanished when an object goes; the API is locked.
	wrote    func(before, after *v1.Pod)
	vanished func(pod *v1.Pod, by string)
	// edited is called when a user makes (before is nil) or changes a pod; the API is locked.
	edited func(before, after *v1.Pod)
}

var _ status.Sink = (*API)(nil)

func newAPI(t *Trace) *API {
	return &API{
		trace: t, pods: map[types.NamespacedName]*v1.Pod{}, changed: make(chan struct{}),
		wrote: func(_, _ *v1.Pod) {}, vanished: func(*v1.Pod, string) {},
		edited: func(_, _ *v1.Pod) {},
	}
}

func nameOf(p *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
}

// put stores a pod. The state is locked.
func (a *API) put(p *v1.Pod) {
	a.version++
	p.ResourceVersion = strconv.Itoa(a.version)
	a.pods[nameOf(p)] = p
	a.notify()
}

func (a *API) notify() {
	close(a.changed)
	a.changed = make(chan struct{})
}

// Create stores a new pod. A pod of that name must not exist.
func (a *API) Create(p *v1.Pod) error {
	a.state.Lock()
	defer a.state.Unlock()
	if a.pods[nameOf(p)] != nil {
		return fmt.Errorf("pod %q exists: %w", p.Name, errdefs.ErrAlreadyExists)
	}
	p = p.DeepCopy()
	p.CreationTimestamp = *now()
	p.Generation = 1
	if p.Status.Phase == "" {
		p.Status.Phase = v1.PodPending
	}
	a.put(p)
	a.trace.add(time.Now(), Event{Text: "create " + p.Name, UID: p.UID})
	a.edited(nil, p)
	return nil
}

// now is the time as the API's objects can hold it.
func now() *metav1.Time { return ptr.To(metav1.NewTime(time.Now().Truncate(time.Second))) }

// Delete asks for a deletion as a user does. Grace zero removes at once. The grace period never grows.
func (a *API) Delete(name types.NamespacedName, grace time.Duration) {
	a.state.Lock()
	defer a.state.Unlock()
	old := a.pods[name]
	if old == nil {
		return
	}
	seconds := int64(grace / time.Second)
	if old.DeletionGracePeriodSeconds != nil && *old.DeletionGracePeriodSeconds <= seconds && seconds != 0 {
		return
	}
	a.trace.add(time.Now(), Event{Text: fmt.Sprintf("delete %s grace=%s", old.Name, grace), UID: old.UID})
	p := old.DeepCopy()
	if seconds == 0 && len(p.Finalizers) == 0 {
		a.vanish(p, "user")
		return
	}
	requested := time.Now()
	if old.DeletionTimestamp != nil {
		requested = old.DeletionTimestamp.Add(-time.Duration(*old.DeletionGracePeriodSeconds) * time.Second)
	}
	p.DeletionGracePeriodSeconds = &seconds
	p.DeletionTimestamp = ptr.To(metav1.NewTime(requested.Add(grace).Truncate(time.Second)))
	p.Generation++
	a.put(p)
}

// Edit changes a pod as a user does.
func (a *API) Edit(name types.NamespacedName, change func(*v1.Pod)) {
	a.state.Lock()
	defer a.state.Unlock()
	if old := a.pods[name]; old != nil {
		p := old.DeepCopy()
		change(p)
		p.Generation++
		a.edited(old, p)
		a.put(p)
	}
}

// EditStatus changes the status of a pod as another writer does.
func (a *API) EditStatus(name types.NamespacedName, change func(*v1.PodStatus)) {
	a.state.Lock()
	defer a.state.Unlock()
	if old := a.pods[name]; old != nil {
		p := old.DeepCopy()
		change(&p.Status)
		a.put(p)
	}
}

// vanish removes a pod. The state is locked.
func (a *API) vanish(p *v1.Pod, by string) {
	a.vanished(p, by)
	a.trace.add(time.Now(), Event{Text: fmt.Sprintf("gone %s by=%s", p.Name, by), UID: p.UID})
	delete(a.pods, nameOf(p))
	a.notify()
}

// Pod returns the pod of that name, nil if there is none.
func (a *API) Pod(name types.NamespacedName) *v1.Pod {
	a.state.Lock()
	defer a.state.Unlock()
	return a.pods[name]
}

// Pods returns all pods.
func (a *API) Pods() []*v1.Pod {
	a.state.Lock()
	defer a.state.Unlock()
	out := make([]*v1.Pod, 0, len(a.pods))
	for _, p := range a.pods {
		out = append(out, p)
	}
	return out
}

// SetGap makes watches silent, or lets them catch up.
func (a *API) SetGap(on bool) {
	a.state.Lock()
	defer a.state.Unlock()
	a.gap = on
	if on {
		a.trace.add(time.Now(), Event{Text: "api watch silent", Side: blindAPI, Cause: "watch", Blind: true})
	} else {
		a.trace.add(time.Now(), Event{Text: "api watch on", Side: blindAPI, Cause: "watch"})
	}
	a.notify()
}

// SetHidden makes lists empty, as those of an API server that lost its sight.
func (a *API) SetHidden(on bool) {
	a.state.Lock()
	defer a.state.Unlock()
	a.hidden = on
	if on {
		a.trace.add(time.Now(), Event{Text: "api lists are empty", Detail: "hidden", Side: blindAPI, Cause: "lists", Blind: true})
	} else {
		a.trace.add(time.Now(), Event{Text: "api lists are full", Side: blindAPI, Cause: "lists"})
	}
	a.notify()
}

// Down makes every call fail, Up ends that.
func (a *API) Down() {
	a.trace.add(time.Now(), Event{Text: "api down", Side: blindAPI, Cause: "down", Blind: true})
	a.cut()
}

// Up ends Down.
func (a *API) Up() {
	a.mend()
	a.trace.add(time.Now(), Event{Text: "api up", Side: blindAPI, Cause: "down"})
}

// snapshot is every pod by UID, and a channel that is closed at the next change. ok is false while watches are silent.
func (a *API) snapshot() (pods map[types.UID]*v1.Pod, changed <-chan struct{}, ok bool) {
	a.state.Lock()
	defer a.state.Unlock()
	if a.gap {
		return nil, a.changed, false
	}
	pods = map[types.UID]*v1.Pod{}
	if !a.hidden {
		for _, p := range a.pods {
			pods[p.UID] = p
		}
	}
	return pods, a.changed, true
}

// GetPod reads a pod.
func (a *API) GetPod(ctx context.Context, namespace, name string) (pod *v1.Pod, err error) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	err = a.call(ctx, "GetPod", a.uid(key), func(context.Context) error {
		if pod = a.Pod(key); pod == nil {
			return fmt.Errorf("pod %q: %w", name, errdefs.ErrNotFound)
		}
		return nil
	})
	return pod, err
}

func (a *API) uid(name types.NamespacedName) types.UID {
	if p := a.Pod(name); p != nil {
		return p.UID
	}
	return ""
}

// PatchPodStatus is the status subresource.
func (a *API) PatchPodStatus(
	ctx context.Context, name types.NamespacedName, uid types.UID, version string, patch []byte,
) (pod *v1.Pod, err error) {
	err = a.call(ctx, "PatchPodStatus", uid, func(context.Context) error {
		a.state.Lock()
		defer a.state.Unlock()
		old, err := a.same(name, uid)
		if err != nil {
			return err
		}
		if version != "" && version != old.ResourceVersion {
			return fmt.Errorf("pod %s was changed meanwhile: %w", name, errdefs.ErrConflict)
		}
		if pod, err = patched(old, patch); err != nil {
			return err
		}
		a.put(pod)
		a.wrote(old, pod)
		return nil
	})
	return pod, err
}

func patched(old *v1.Pod, patch []byte) (*v1.Pod, error) {
	before, err := json.Marshal(old.Status)
	if err != nil {
		return nil, err
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, v1.PodStatus{})
	if err != nil {
		return nil, err
	}
	pod := old.DeepCopy()
	pod.Status = v1.PodStatus{}
	return pod, json.Unmarshal(after, &pod.Status)
}

// DeletePod removes an object without a grace period; one with finalizers stays.
func (a *API) DeletePod(ctx context.Context, name types.NamespacedName, uid types.UID) error {
	return a.call(ctx, "DeletePod", uid, func(context.Context) error {
		a.state.Lock()
		defer a.state.Unlock()
		old, err := a.same(name, uid)
		if err != nil {
			return err
		}
		if len(old.Finalizers) == 0 {
			a.vanish(old, "node")
			return nil
		}
		p := old.DeepCopy()
		p.DeletionGracePeriodSeconds = ptr.To[int64](0)
		p.DeletionTimestamp = now()
		a.put(p)
		return nil
	})
}

// same is the stored pod if it has the UID.
func (a *API) same(name types.NamespacedName, uid types.UID) (*v1.Pod, error) {
	old := a.pods[name]
	switch {
	case old == nil:
		return nil, fmt.Errorf("pod %s: %w", name, errdefs.ErrNotFound)
	case old.UID != uid:
		return nil, fmt.Errorf("pod %s is another one: %w", name, errdefs.ErrConflict)
	}
	return old, nil
}

// live are the UIDs of all objects.
func (a *API) live() map[types.UID]*v1.Pod {
	a.state.Lock()
	defer a.state.Unlock()
	out := map[types.UID]*v1.Pod{}
	for p := range maps.Values(a.pods) {
		out[p.UID] = p
	}
	return out
}
