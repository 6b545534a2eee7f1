// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

var errDown = fmt.Errorf("no route to the API: %w", errdefs.ErrUnavailable)

// fail is what happens to one call instead of its answer.
type fail struct {
	// hang keeps the call until its context ends.
	hang bool
	// after lets the call have its effect first: only the answer is lost.
	after bool
	// err is its error instead of the one that says that the API cannot be reached.
	err error
	// held lets the call have its effect and keeps its answer until the channel is closed.
	held chan struct{}
}

// fakeAPI is an API server with pods in memory. Every call is noted as "verb name".
type fakeAPI struct {
	mu      sync.Mutex
	pods    map[types.NamespacedName]*v1.Pod
	version int
	calls   []string
	times   []time.Time
	// failures are taken one after the other by the calls with that note.
	failures map[string][]fail
	// forget makes the server drop a part of every status, as one does that is older than we are.
	forget func(*v1.PodStatus)
}

var _ Sink = (*fakeAPI)(nil)

func newFakeAPI(pods ...*v1.Pod) *fakeAPI {
	f := &fakeAPI{pods: map[types.NamespacedName]*v1.Pod{}, failures: map[string][]fail{}}
	for _, p := range pods {
		f.put(p)
	}
	return f
}

func nameOf(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// put stores a copy of the pod as another writer would and returns what a watch would deliver.
func (f *fakeAPI) put(pod *v1.Pod) *v1.Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	pod = pod.DeepCopy()
	f.version++
	pod.ResourceVersion = strconv.Itoa(f.version)
	f.pods[nameOf(pod)] = pod
	return pod.DeepCopy()
}

// change is put for a part of a pod.
func (f *fakeAPI) change(t *testing.T, name string, change func(*v1.Pod)) *v1.Pod {
	t.Helper()
	pod := f.read(name)
	if pod == nil {
		t.Fatalf("there is no pod %q", name)
	}
	change(pod)
	return f.put(pod)
}

func (f *fakeAPI) read(name string) *v1.Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pods[types.NamespacedName{Namespace: "ns", Name: name}].DeepCopy()
}

func (f *fakeAPI) failNext(call string, failures ...fail) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failures[call] = append(f.failures[call], failures...)
}

// taken returns the calls since the last time it was asked.
func (f *fakeAPI) taken() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls, f.times = nil, nil
	return calls
}

func (f *fakeAPI) when() []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.times)
}

// do notes the call and runs its effect, unless it is to fail.
func (f *fakeAPI) do(ctx context.Context, call string, effect func() error) error {
	f.mu.Lock()
	f.calls = append(f.calls, call)
	f.times = append(f.times, time.Now())
	var how *fail
	if queue := f.failures[call]; len(queue) > 0 {
		how, f.failures[call] = &queue[0], queue[1:]
	}
	if how == nil || how.after || how.held != nil {
		err := effect()
		f.mu.Unlock()
		switch {
		case how != nil && how.held != nil:
			<-how.held
			return err
		case err != nil || how == nil:
			return err
		default:
			return errDown
		}
	}
	f.mu.Unlock()
	if how.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	return cmp.Or(how.err, errDown)
}

func (f *fakeAPI) GetPod(ctx context.Context, namespace, name string) (pod *v1.Pod, err error) {
	err = f.do(ctx, "get "+name, func() error {
		if pod = f.pods[types.NamespacedName{Namespace: namespace, Name: name}].DeepCopy(); pod == nil {
			return fmt.Errorf("pod %q: %w", name, errdefs.ErrNotFound)
		}
		return nil
	})
	return pod, err
}

func (f *fakeAPI) PatchPodStatus(
	ctx context.Context, name types.NamespacedName, uid types.UID, version string, patch []byte,
) (pod *v1.Pod, err error) {
	err = f.do(ctx, "patch "+name.Name, func() error {
		stored, err := f.same(name, uid)
		if err != nil {
			return err
		}
		if version != "" && version != stored.ResourceVersion {
			return errors.Join(errdefs.ErrConflict, errors.New("another version"))
		}
		before, err := json.Marshal(stored.Status)
		if err != nil {
			return err
		}
		after, err := strategicpatch.StrategicMergePatch(before, patch, v1.PodStatus{})
		if err != nil {
			return err
		}
		var status v1.PodStatus
		if err := json.Unmarshal(after, &status); err != nil {
			return err
		}
		if f.forget != nil {
			f.forget(&status)
		}
		next := stored.DeepCopy()
		next.Status = status
		f.version++
		next.ResourceVersion = strconv.Itoa(f.version)
		f.pods[name] = next
		pod = next.DeepCopy()
		return nil
	})
	return pod, err
}

func (f *fakeAPI) DeletePod(ctx context.Context, name types.NamespacedName, uid types.UID) error {
	return f.do(ctx, "delete "+name.Name, func() error {
		stored, err := f.same(name, uid)
		if err != nil {
			return err
		}
		if len(stored.Finalizers) == 0 {
			delete(f.pods, name)
		}
		return nil
	})
}

func (f *fakeAPI) same(name types.NamespacedName, uid types.UID) (*v1.Pod, error) {
	stored := f.pods[name]
	switch {
	case stored == nil:
		return nil, fmt.Errorf("pod %s: %w", name, errdefs.ErrNotFound)
	case stored.UID != uid:
		return nil, errors.Join(errdefs.ErrConflict, errors.New("another UID"))
	}
	return stored, nil
}
