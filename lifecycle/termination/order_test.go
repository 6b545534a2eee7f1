// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package termination

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

// sidecarBench is a bench whose named sidecars are in the pod's spec in front of main. Those of running run.
func sidecarBench(rt *fakecri.Runtime, graceSeconds int64, hooks map[string]bool, sidecars []string, running ...string) *bench {
	b := newBench(rt, graceSeconds, hooks, running...)
	b.pod.Spec.Containers = []v1.Container{container("main", hooks)}
	for _, name := range sidecars {
		c := container(name, hooks)
		c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		b.pod.Spec.InitContainers = append(b.pod.Spec.InitContainers, c)
	}
	return b
}

func container(name string, hooks map[string]bool) v1.Container {
	c := v1.Container{Name: name}
	if hooks[name] {
		c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"bye", name}}}}
	}
	return c
}

func endsAfter(d time.Duration) fakecri.Behaviour {
	return fakecri.Behaviour{OnTERM: fakecri.TERM{After: d}}
}

func (b *bench) wantSignals(t *testing.T, start time.Time, want map[string][]string) {
	t.Helper()
	got := map[string][]string{}
	for name := range want {
		got[name] = b.signals(name, start)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("signals (-want +got):\n%s", diff)
	}
}

func TestSidecarsStopInReverseOrderAfterRegularContainers(t *testing.T) {
	for _, tc := range []struct {
		name    string
		running []string
		stops   map[string]fakecri.Behaviour
		want    map[string][]string
	}{
		{
			"all run",
			[]string{"s1", "s2", "main"},
			map[string]fakecri.Behaviour{"main": endsAfter(3 * time.Second), "s2": endsAfter(2 * time.Second)},
			map[string][]string{"main": {"TERM@0s"}, "s2": {"TERM@3s"}, "s1": {"TERM@5s"}},
		},
		{
			"a sidecar that never started holds nobody up",
			[]string{"s1"},
			nil,
			map[string][]string{"s1": {"TERM@0s"}},
		},
		{
			"a sidecar in the middle that does not run is skipped",
			[]string{"s1", "s3", "main"},
			map[string]fakecri.Behaviour{"main": endsAfter(time.Second), "s3": endsAfter(time.Second)},
			map[string][]string{"main": {"TERM@0s"}, "s3": {"TERM@1s"}, "s1": {"TERM@2s"}},
		},
		{
			"a budget that the regular containers use up leaves two seconds",
			[]string{"s1", "main"},
			map[string]fakecri.Behaviour{"main": ignoresTERM, "s1": ignoresTERM},
			map[string][]string{"main": {"TERM@0s", "KILL@20s"}, "s1": {"TERM@20s", "KILL@22s"}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
				for name, how := range tc.stops {
					rt.Behave(fakecri.Selector{Container: name}, how)
				}
				b := sidecarBench(rt, 20, nil, []string{"s1", "s2", "s3"}, tc.running...)
				start := time.Now()
				mustStop(t, b, start.Add(20*time.Second))
				b.wantSignals(t, start, tc.want)
			})
		})
	}
}

func TestHookOfASidecarRunsAtOnce(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		rt.Behave(fakecri.Selector{Container: "main"}, endsAfter(5*time.Second))
		b := sidecarBench(rt, 30, map[string]bool{"s1": true}, []string{"s1"}, "s1", "main")
		id := b.seeded.Containers["s1"]
		b.hooks.plan[id] = hookPlan{takes: 2 * time.Second}
		start := time.Now()
		mustStop(t, b, start.Add(30*time.Second))
		if begun := b.hooks.run(id).begun.Sub(start); begun != 0 {
			t.Errorf("the hook began after %s, want at once", begun)
		}
		b.wantSignals(t, start, map[string][]string{"main": {"TERM@0s"}, "s1": {"TERM@5s"}})
	})
}

func TestOrderHoldsAcrossErrorsAndRestarts(t *testing.T) {
	for name, between := range map[string]func(*bench){
		"same process": func(*bench) {}, "process restarted": (*bench).restart,
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
				b := sidecarBench(rt, 30, nil, []string{"s1"}, "s1", "main")
				start := time.Now()
				rt.Inject(fakecri.Fault{
					Method: "StopContainer", Selector: fakecri.Selector{Container: "main"}, Err: errdefs.ErrInternal, Times: 1,
				})
				if err := b.killPod(t.Context(), start.Add(30*time.Second)); !errors.Is(err, errdefs.ErrInternal) {
					t.Fatalf("KillPod = %v, want the runtime's error", err)
				}
				b.wantSignals(t, start, map[string][]string{"main": nil, "s1": nil})
				between(b)
				time.Sleep(2 * time.Second)
				mustStop(t, b, start.Add(30*time.Second))
				b.wantSignals(t, start, map[string][]string{"main": {"TERM@2s"}, "s1": {"TERM@2s"}})
			})
		})
	}
}

func TestSidecarIsNotHeldUpForEverByAContainerThatCannotBeStopped(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := sidecarBench(rt, 5, nil, []string{"s1"}, "s1", "main")
		broken := rt.Inject(fakecri.Fault{
			Method: "StopContainer", Selector: fakecri.Selector{Container: "main"}, Err: errors.New("cannot kill it"),
		})
		deadline := time.Now().Add(5 * time.Second)
		for range 4 {
			if err := b.killPod(t.Context(), deadline); err == nil {
				t.Fatal("KillPod succeeded although a container could not be stopped")
			}
			time.Sleep(2 * time.Second)
		}
		if got := rt.Running(podUID); !cmp.Equal(got, []string{"main"}) {
			t.Errorf("running %v after the deadline, want main alone", got)
		}
		if n := len(rt.Calls("StopPodSandbox")); n != 0 {
			t.Errorf("StopPodSandbox was called %d times", n)
		}
		broken.Remove()
		mustStop(t, b, deadline)
	})
}

func TestCancelledWaitForATurnSignalsNothing(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		rt.Behave(fakecri.Selector{Container: "main"}, ignoresTERM)
		b := sidecarBench(rt, 600, nil, []string{"s1"}, "s1", "main")
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := b.killPod(ctx, start.Add(600*time.Second)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("cancelled KillPod = %v", err)
		}
		b.wantSignals(t, start, map[string][]string{"s1": nil})
		mustStop(t, b, time.Now().Add(time.Second))
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("the forced stop took %s after 5s of grace, want at most 5s more", took)
		}
	})
}

func TestSingleSidecarDoesNotWait(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := sidecarBench(rt, 30, nil, []string{"s1"}, "s1", "main")
		start := time.Now()
		err := b.term.KillContainer(t.Context(), ContainerKill{Pod: b.pod, Container: b.observe().Newest("s1"), Message: "unwell"})
		if err != nil {
			t.Fatal(err)
		}
		b.wantSignals(t, start, map[string][]string{"s1": {"TERM@0s"}, "main": nil})
	})
}

func TestPredecessors(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{
			{Name: "s1", RestartPolicy: new(v1.ContainerRestartPolicyAlways)}, {Name: "setup"},
			{Name: "s2", RestartPolicy: new(v1.ContainerRestartPolicyAlways)},
		},
		Containers: []v1.Container{{Name: "a"}, {Name: "b"}},
		EphemeralContainers: []v1.EphemeralContainer{
			{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}},
		},
	}}
	var victims []*cri.ContainerStatus
	for _, name := range []string{"a", "debug", "s1", "setup", "s2", "b", "unknown"} {
		victims = append(victims, &cri.ContainerStatus{Name: name})
	}
	want := [][]int{nil, nil, {0, 4, 5}, nil, {0, 5}, nil, nil}
	if diff := cmp.Diff(want, predecessors(pod, victims)); diff != "" {
		t.Errorf("predecessors (-want +got):\n%s", diff)
	}
}
