// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/lifecycle"
	"github.com/tombolo-dev/tombolo/lifecycle/status"
)

// mostMutantSeeds is in how many histories a mutant must be caught. Each is caught in far fewer.
const mostMutantSeeds = 100

// TestBrokenEnginesAreCaught is the test of the test: for each invariant there is an engine that breaks it, and the checker
// of that invariant must see it.
func TestBrokenEnginesAreCaught(t *testing.T) {
	for _, m := range []struct {
		invariant, name string
		mutate          func(*lifecycle.Options)
		judge           func(*testing.T, uint64, runOptions) Result
	}{
		{"I1", "the object goes when its deletion is asked for", func(o *lifecycle.Options) { o.Sink = &hastySink{Sink: o.Sink} }, drawn},
		{"I2", "a stop that was not done is taken as done", func(o *lifecycle.Options) { o.Runtime = &lazyRuntime{Runtime: o.Runtime} }, drawn},
		{"I3", "a new process stops what it finds", func(o *lifecycle.Options) { o.Runtime = &cleanRuntime{Runtime: o.Runtime} }, drawn},
		{"I4", "hooks are left out", func(o *lifecycle.Options) { o.Host = silentHost{o.Host} }, drawn},
		{"I4", "a stop gets more time than there is", func(o *lifecycle.Options) { o.Runtime = slowRuntime{o.Runtime} }, drawn},
		{"I5", "restart counts begin again", func(o *lifecycle.Options) { o.Sink = &forgetfulSink{Sink: o.Sink} }, drawn},
		{"I6", "one call at a time", func(o *lifecycle.Options) { o.Runtime = &serialRuntime{Runtime: o.Runtime} }, beside},
		{"I7", "what a list lacks is gone", func(o *lifecycle.Options) { o.Source.(*source).trusts = true }, drawn},
		{"I10", "what was seen before the link was cut is believed for ever", func(o *lifecycle.Options) {
			o.Runtime = &stubbornRuntime{Runtime: o.Runtime}
		}, drawn},
	} {
		t.Run(m.invariant+" "+m.name, func(t *testing.T) {
			t.Parallel()
			for n := range uint64(mostMutantSeeds) {
				if breaks(m.judge(t, shuffleSeed(n)>>16, runOptions{mutate: m.mutate}), m.invariant) {
					t.Logf("caught in history %d", n+1)
					return
				}
			}
			t.Errorf("%d histories do not catch it", mostMutantSeeds)
		})
	}
}

// drawn judges a random history.
func drawn(t *testing.T, seed uint64, o runOptions) Result { return run(t, Draw(seed), o) }

// hastySink removes an object as soon as its status is written after its deletion was asked for.
type hastySink struct{ status.Sink }

func (s *hastySink) PatchPodStatus(
	ctx context.Context, name types.NamespacedName, uid types.UID, version string, patch []byte,
) (*v1.Pod, error) {
	pod, err := s.Sink.PatchPodStatus(ctx, name, uid, version, patch)
	if err == nil && pod.DeletionTimestamp != nil {
		return pod, s.DeletePod(ctx, name, uid)
	}
	return pod, err
}

// lazyRuntime stops nothing, and hides what it did not stop.
type lazyRuntime struct {
	lifecycle.Runtime
	hidden sync.Map
}

func (r *lazyRuntime) StopContainer(_ context.Context, id string, _ time.Duration) error {
	r.hidden.Store(id, true)
	return nil
}

func (r *lazyRuntime) ListContainers(ctx context.Context, uid types.UID) ([]*runtimeapi.Container, error) {
	all, err := r.Runtime.ListContainers(ctx, uid)
	for _, c := range all {
		if _, ok := r.hidden.Load(c.GetId()); ok {
			c.State = runtimeapi.ContainerState_CONTAINER_EXITED
		}
	}
	return all, err
}

func (r *lazyRuntime) ContainerStatus(ctx context.Context, id string) (*runtimeapi.ContainerStatus, error) {
	st, err := r.Runtime.ContainerStatus(ctx, id)
	if _, ok := r.hidden.Load(id); ok && err == nil {
		st.State = runtimeapi.ContainerState_CONTAINER_EXITED
	}
	return st, err
}

// cleanRuntime stops everything that the first list shows.
type cleanRuntime struct {
	lifecycle.Runtime
	once sync.Once
}

func (r *cleanRuntime) ListContainers(ctx context.Context, uid types.UID) ([]*runtimeapi.Container, error) {
	all, err := r.Runtime.ListContainers(ctx, uid)
	if err == nil && uid == "" {
		r.once.Do(func() {
			for _, c := range all {
				_ = r.StopContainer(ctx, c.GetId(), 0)
			}
		})
	}
	return all, err
}

// silentHost says of each hook that it ran.
type silentHost struct{ host.Host }

func (silentHost) RunHook(context.Context, host.HookRequest) (*host.HookResult, error) {
	return &host.HookResult{}, nil
}

// slowRuntime gives each container ten seconds more.
type slowRuntime struct{ lifecycle.Runtime }

func (r slowRuntime) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	return r.Runtime.StopContainer(ctx, id, grace+10*time.Second)
}

// forgetfulSink writes no restart count but zero.
type forgetfulSink struct{ status.Sink }

var restartCounts = regexp.MustCompile(`"restartCount":\d+`)

func (s *forgetfulSink) PatchPodStatus(
	ctx context.Context, name types.NamespacedName, uid types.UID, version string, patch []byte,
) (*v1.Pod, error) {
	if time.Now().Second() >= 30 { // it has worked for a while
		patch = restartCounts.ReplaceAll(patch, []byte(`"restartCount":0`))
	}
	return s.Sink.PatchPodStatus(ctx, name, uid, version, patch)
}

// serialRuntime inspects one container or sandbox at a time.
type serialRuntime struct {
	lifecycle.Runtime
	one chan struct{}
	set sync.Once
}

func (r *serialRuntime) enter() func() {
	r.set.Do(func() { r.one = make(chan struct{}, 1) })
	r.one <- struct{}{}
	return func() { <-r.one }
}

func (r *serialRuntime) ContainerStatus(ctx context.Context, id string) (*runtimeapi.ContainerStatus, error) {
	defer r.enter()()
	return r.Runtime.ContainerStatus(ctx, id)
}

func (r *serialRuntime) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	defer r.enter()()
	return r.Runtime.StopContainer(ctx, id, grace)
}

func (r *serialRuntime) StartContainer(ctx context.Context, id string) error {
	defer r.enter()()
	return r.Runtime.StartContainer(ctx, id)
}

// stubbornRuntime answers with its last list after a call could not reach the runtime.
type stubbornRuntime struct {
	lifecycle.Runtime
	mu    sync.Mutex
	stuck bool
	last  []*runtimeapi.Container
}

func (r *stubbornRuntime) ListContainers(ctx context.Context, uid types.UID) ([]*runtimeapi.Container, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stuck {
		return r.of(uid), nil
	}
	all, err := r.Runtime.ListContainers(ctx, uid)
	switch {
	case errdefs.IsUnavailable(err):
		r.stuck = true
		return r.of(uid), nil
	case err == nil && uid == "":
		r.last = all
	}
	return all, err
}

func (r *stubbornRuntime) of(uid types.UID) []*runtimeapi.Container {
	var out []*runtimeapi.Container
	for _, c := range r.last {
		if uid == "" || c.GetLabels()["io.kubernetes.pod.uid"] == string(uid) {
			out = append(out, c)
		}
	}
	return out
}
