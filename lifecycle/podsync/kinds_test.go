// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"errors"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

func (b *bench) succeed(t *testing.T, kind podrules.ProbeKind, name string) {
	t.Helper()
	b.probes[string(kind)+" "+b.newest(t, name).ID] = podrules.ProbeSucceeded
}

func (b *bench) fail(t *testing.T, kind podrules.ProbeKind, name string) {
	t.Helper()
	b.probes[string(kind)+" "+b.newest(t, name).ID] = podrules.ProbeFailed
}

func TestSidecarsStartInOrderAndKeepRunning(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyNever, "proxy,setup|web")
		mark(t, b.pod, "proxy:sidecar proxy:startup")
		b.mustSync(t)
		b.mustSync(t)
		b.wantRecords(t, "proxy/0 running")
		b.succeed(t, podrules.StartupProbe, "proxy")
		b.mustSync(t)
		b.wantRecords(t, "proxy/0 running", "setup/0 running")
		b.exit(t, "proxy", 0)
		b.mustSync(t)
		b.wantRecords(t, "proxy/0 exited", "setup/0 running", "proxy/1 running")
		b.exit(t, "setup", 0)
		b.mustSync(t)
		b.wantRecords(t, "proxy/0 exited", "setup/0 exited", "proxy/1 running", "web/0 running")
		b.events.take()
		b.exit(t, "proxy", 1)
		time.Sleep(time.Minute)
		b.mustSync(t)
		b.wantEvents(t, "Created spec.initContainers{proxy}: Container created", "Started spec.initContainers{proxy}: Container started")
		b.exit(t, "web", 0)
		b.mustSync(t)
		if got := rt.Running(b.pod.UID); len(got) != 0 {
			t.Errorf("the pod is done and %v run", got)
		}
	})
}

func TestSidecarThatCannotStartDoesNotStopTheRest(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "proxy|web")
		mark(t, b.pod, "proxy:sidecar")
		b.mustSync(t)
		b.mustSync(t)
		b.exit(t, "proxy", 1)
		b.exit(t, "web", 1)
		rt.Inject(fakecri.Fault{Method: "CreateContainer", Selector: fakecri.Selector{Container: "proxy"}, Err: errors.New("no device"), Times: 1})
		if r := b.sync(t); r.Err == nil {
			t.Error("no error")
		}
		b.wantWaiting(t, "proxy", "CreateContainerError", "no device")
		if got := b.newest(t, "web"); !got.Alive || got.Attempt != 1 {
			t.Errorf("web is %+v", got)
		}
	})
}

func TestFailedProbeRestartsTheContainer(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "web")
		mark(t, b.pod, "web:liveness")
		b.mustSync(t)
		b.events.take()
		b.fail(t, podrules.LivenessProbe, "web")
		b.mustSync(t)
		b.wantRecords(t, "web/0 exited", "web/1 running")
		b.wantEvents(t, "Killing spec.containers{web}: Container web failed liveness probe, will be restarted", createdWeb, startedWeb)
		// What the old container did is not held against the new one.
		b.mustSync(t)
		b.wantRecords(t, "web/0 exited", "web/1 running")
	})
}

func TestRestartAllBeginsAgainWithTheInitContainers(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		rt.Behave(fakecri.Selector{Container: "side"}, fakecri.Behaviour{})
		b := newBench(rt, v1.RestartPolicyNever, "setup|web,side")
		mark(t, b.pod, "web:never web:all42 side:hook")
		b.mustSync(t)
		b.exit(t, "setup", 0)
		b.mustSync(t)
		b.pod.Spec.Containers[1].Lifecycle.PreStop = b.pod.Spec.Containers[1].Lifecycle.PostStart
		b.hooks.begun = nil
		b.logs.next = map[string]int32{"setup": 1, "web": 1, "side": 1}
		b.exit(t, "web", 42)
		r := b.sync(t)
		if !r.Acted || r.Err == nil || r.BackoffUntil.IsZero() || r.BackoffUntil.After(time.Now()) {
			t.Errorf("result %+v, want another sync at once", r)
		}
		b.wantRecords(t)
		b.wantWaiting(t, "side", "RestartingAllContainers", "The container is removed because RestartAllContainers in place")
		if len(b.hooks.begun) != 0 || len(b.logs.removed) != 0 {
			t.Errorf("hooks %v were run, logs %v removed", b.hooks.begun, b.logs.removed)
		}
		b.mustSync(t)
		b.wantRecords(t, "setup/1 running")
		b.exit(t, "setup", 0)
		b.mustSync(t)
		b.wantRecords(t, "setup/1 exited", "web/1 running", "side/1 running")
		b.wantWaiting(t, "side", "", "")
		if n := len(rt.Sandboxes(b.pod.UID)); n != 1 {
			t.Errorf("%d sandboxes", n)
		}
	})
}

func TestRestartAllGoesOnAfterItWasCutShort(t *testing.T) {
	for n := range 4 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
				b := newBench(rt, v1.RestartPolicyNever, "setup,proxy|web,side")
				mark(t, b.pod, "proxy:sidecar web:never web:all42")
				b.mustSync(t)
				b.exit(t, "setup", 0)
				b.mustSync(t)
				b.mustSync(t)
				b.exit(t, "web", 42)
				rt.Inject(fakecri.Fault{Method: "RemoveContainer", Err: errors.New("busy"), Skip: n, Times: 1})
				b.sync(t)
				if got := len(rt.Containers(b.pod.UID)); got != 4-n {
					t.Fatalf("%d records are left, want %d", got, 4-n)
				}
				b.restart()
				b.sync(t)
				b.mustSync(t)
				if got := rt.Running(b.pod.UID); len(got) != 1 || got[0] != "setup" {
					t.Errorf("running %v, want the first init container", got)
				}
			})
		})
	}
}

func debugContainer(target string) []v1.EphemeralContainer {
	return []v1.EphemeralContainer{{
		EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug", Image: "registry.test/debug:1"}, TargetContainerName: target,
	}}
}

func TestEphemeralContainerJoinsItsTarget(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(pod *v1.Pod)
		want   runtimeapi.NamespaceMode
	}{
		{"of its own", func(*v1.Pod) {}, runtimeapi.NamespaceMode_TARGET},
		{"shared", func(p *v1.Pod) { p.Spec.ShareProcessNamespace = new(true) }, runtimeapi.NamespaceMode_POD},
	} {
		t.Run(tc.name, func(t *testing.T) {
			scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
				b := newBench(rt, v1.RestartPolicyAlways, "web")
				tc.change(b.pod)
				b.mustSync(t)
				b.events.take()
				b.pod.Spec.EphemeralContainers = debugContainer("web")
				b.mustSync(t)
				b.wantEvents(t, "Created spec.ephemeralContainers{debug}: Container created",
					"Started spec.ephemeralContainers{debug}: Container started")
				namespaces := b.newest(t, "debug").Config.GetLinux().GetSecurityContext().GetNamespaceOptions()
				if namespaces.GetPid() != tc.want || (tc.want == runtimeapi.NamespaceMode_TARGET) != (namespaces.GetTargetId() == b.newest(t, "web").ID) {
					t.Errorf("namespaces %v", namespaces)
				}
				b.exit(t, "debug", 1)
				b.mustSync(t)
				b.wantRecords(t, "web/0 running", "debug/0 exited")
			})
		})
	}
}

func TestEphemeralContainerWithoutItsTargetSaysSo(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "setup|web")
		b.mustSync(t)
		b.events.take()
		b.pod.Spec.EphemeralContainers = debugContainer("web")
		if r := b.sync(t); r.Err == nil {
			t.Error("no error")
		}
		b.wantWaiting(t, "debug", "CreateContainerConfigError", "unable to find target container web")
		b.wantEvents(t, "Failed spec.ephemeralContainers{debug}: Error: unable to find target container web")
		b.exit(t, "setup", 0)
		b.sync(t)
		b.mustSync(t)
		if got := b.newest(t, "debug"); !got.Alive {
			t.Errorf("debug is %+v", got)
		}
	})
}

func TestRemovedEphemeralContainerIsNotMadeAgain(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %t", restart), func(t *testing.T) {
			scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
				b := newBench(rt, v1.RestartPolicyAlways, "web")
				b.pod.Spec.EphemeralContainers = debugContainer("web")
				b.sync(t)
				b.mustSync(t)
				if restart {
					// The worker's pod is only as new as its spec, so without a restart it does not show this yet.
					b.pod.Status.EphemeralContainerStatuses = []v1.ContainerStatus{
						{Name: "debug", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}},
					}
					b.restart()
				}
				b.exit(t, "debug", 0)
				if err := rt.Client().RemoveContainer(t.Context(), b.newest(t, "debug").ID); err != nil {
					t.Fatal(err)
				}
				b.mustSync(t)
				b.wantRecords(t, "web/0 running")
			})
		})
	}
}

func TestSandboxReadyIsToldBeforeThePull(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "web")
		b.images.err = &imageError{"ErrImagePull", "no such image"}
		told := 0
		b.syncer.opts.SandboxReady = func(pod *v1.Pod, sandbox *runtimeapi.PodSandboxStatus) {
			told++
			if pod.UID != b.pod.UID || sandbox.GetNetwork().GetIp() == "" {
				t.Errorf("told of %s, %v", pod.UID, sandbox)
			}
		}
		b.sync(t)
		b.sync(t)
		if told != 1 {
			t.Errorf("told %d times, want once per sandbox", told)
		}
	})
}

// TestContainerHashNeverChanges guards containers that run: another hash restarts them all.
func TestContainerHashNeverChanges(t *testing.T) {
	for want, c := range map[string]v1.Container{
		"b5630e8a": {Name: "web", Image: "registry.test/web:1"},
		"82b564d4": {Name: "web", Image: "registry.test/web@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", Args: []string{"x"}},
		"a3e87d47": {Name: "a", Image: "<&>"},
	} {
		if got := cri.ContainerHash(&c); got != want {
			t.Errorf("hash of %s %s is %s, want %s", c.Name, c.Image, got, want)
		}
	}
}
