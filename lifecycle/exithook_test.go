// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/lifecycle/exithook"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

// job is a pod that runs once.
func job(edit ...func(*v1.Pod)) *v1.Pod {
	return testPod("a", append([]func(*v1.Pod){withPreStop, func(p *v1.Pod) {
		p.Spec.RestartPolicy = v1.RestartPolicyNever
	}}, edit...)...)
}

func onExit(p *v1.Pod) { p.Annotations = map[string]string{exithook.Annotation: "true"} }

func withSecond(p *v1.Pod) {
	second := testContainer("second")
	second.Lifecycle = p.Spec.Containers[0].Lifecycle.DeepCopy()
	p.Spec.Containers = append(p.Spec.Containers, second)
}

// jobEnds makes main end after ten seconds and its hook after two, each with an exit code.
func (w *world) jobEnds(code, hookCode int32) {
	w.cri.Behave(fakecri.Selector{}, fakecri.Behaviour{Exits: true, ExitAfter: 10 * time.Second, ExitCode: code})
	for _, name := range []string{"main", "second"} {
		w.cri.Behave(fakecri.Selector{Container: cri.ExitHookName(name)},
			fakecri.Behaviour{Exits: true, ExitAfter: 2 * time.Second, ExitCode: hookCode})
	}
}

func (w *world) ended(phase v1.PodPhase) func() bool {
	return func() bool { return w.api.get("a").Status.Phase == phase }
}

// starts counts how often each container of the pod was really started.
func (w *world) starts() map[string]int {
	n := map[string]int{}
	for _, c := range w.cri.Containers("a") {
		if !c.StartedAt.IsZero() {
			n[c.Name]++
		}
	}
	return n
}

// told returns the events so far that have one of the reasons.
func (w *world) told(reasons ...string) []string {
	var out []string
	for {
		select {
		case e := <-w.recorder.Events:
			if slices.ContainsFunc(reasons, func(r string) bool { return strings.Contains(e, " "+r+" ") }) {
				out = append(out, e)
			}
		default:
			return out
		}
	}
}

func TestAnnotatedJobRunsItsHookOnceBeforeItsSandboxIsStopped(t *testing.T) {
	inWorld(t, func(w *world) {
		w.guardI1()
		w.jobEnds(3, 0)
		w.api.create(job(onExit))
		w.eventually("failed", 30*time.Second, w.ended(v1.PodFailed))
		if diff := cmp.Diff(map[string]int{"main": 1, "main.exit-hook": 1}, w.starts()); diff != "" {
			t.Errorf("starts:\n%s", diff)
		}
		main, _ := w.cri.Newest("a", "main")
		hook, _ := w.cri.Newest("a", "main.exit-hook")
		if stops := w.cri.Calls("StopPodSandbox"); len(stops) == 0 || stops[0].At.Before(hook.FinishedAt) {
			t.Errorf("sandbox stopped by %+v, hook ended at %s", stops, hook.FinishedAt)
		}
		if hook.SandboxID != main.SandboxID || len(hook.Signals) != 0 {
			t.Errorf("hook %+v", hook)
		}
		if got := hook.Config.GetCommand(); !slices.Equal(got, []string{"/bin/bye"}) || len(hook.Config.GetArgs()) != 0 {
			t.Errorf("command %q %q", got, hook.Config.GetArgs())
		}
		if hook.Config.GetLogPath() == main.Config.GetLogPath() || len(hook.Config.GetMounts()) != 1 {
			t.Errorf("log %s, mounts %v", hook.Config.GetLogPath(), hook.Config.GetMounts())
		}
		if runs := w.host.hookRuns(); len(runs) != 0 {
			t.Errorf("ordinary hooks ran: %v", runs)
		}
		want := []string{"Normal PreStopOnExit Running preStop hook of finished container main"}
		if diff := cmp.Diff(want, w.told("PreStopOnExit", "FailedPreStopHook", "Killing")); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestOrdinaryJobRunsNoHook(t *testing.T) {
	for name, edit := range map[string]func(*v1.Pod){
		"without annotation": func(*v1.Pod) {},
		"false":              func(p *v1.Pod) { p.Annotations = map[string]string{exithook.Annotation: "false"} },
		"past its deadline":  func(p *v1.Pod) { onExit(p); withActiveDeadline(5)(p) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.jobEnds(0, 0)
				w.api.create(job(edit))
				w.eventually("ended", 30*time.Second, func() bool {
					return w.api.get("a").Status.Phase != v1.PodRunning && len(w.cri.Running("a")) == 0 && len(w.cri.Containers("a")) > 0
				})
				time.Sleep(time.Minute)
				if diff := cmp.Diff(map[string]int{"main": 1}, w.starts()); diff != "" {
					t.Errorf("starts:\n%s", diff)
				}
			})
		})
	}
}

func TestAnnotatedPodThatIsDeletedWhileItRunsGetsItsOrdinaryHookOnly(t *testing.T) {
	for name, restart := range map[string]bool{"same process": false, "process restarted while it stops": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.guardI1()
				w.cri.Behave(fakecri.Selector{Container: "main"}, fakecri.Behaviour{OnTERM: fakecri.TERM{After: 3 * time.Second}})
				w.api.create(job(onExit))
				w.eventually("running", 10*time.Second, w.running("a"))
				w.api.delete("a", 30)
				if restart {
					time.Sleep(time.Second)
					w.stop()
					time.Sleep(5 * time.Second)
					w.start()
				}
				w.eventually("gone", 30*time.Second, w.gone("a"))
				if diff := cmp.Diff(map[string]int{"main": 1}, w.starts()); diff != "" {
					t.Errorf("starts:\n%s", diff)
				}
				if n := len(w.host.hookRuns()); n != 1 {
					t.Errorf("preStop ran %d times", n)
				}
			})
		})
	}
}

func TestDeletionAfterTheNaturalEndLeavesTheHookItsTurn(t *testing.T) {
	for name, restart := range map[string]bool{"same process": false, "process restarted": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.guardI1()
				w.jobEnds(0, 0)
				w.api.create(job(onExit))
				w.eventually("running", 10*time.Second, w.running("a"))
				if restart {
					w.stop()
				}
				w.eventually("main ended", 20*time.Second, func() bool { return len(w.cri.Running("a")) == 0 || w.cri.Running("a")[0] != "main" })
				if restart {
					time.Sleep(2 * time.Second)
				}
				w.api.delete("a", 30)
				if restart {
					w.start()
				}
				w.eventually("hook started", 10*time.Second, func() bool { return w.starts()["main.exit-hook"] == 1 })
				w.eventually("gone", 10*time.Second, w.gone("a"))
			})
		})
	}
}

func TestHookAfterExitIsEndedWithTheGracePeriod(t *testing.T) {
	inWorld(t, func(w *world) {
		w.jobEnds(0, 0)
		w.cri.Behave(fakecri.Selector{Container: "main.exit-hook"}, fakecri.Behaviour{OnTERM: fakecri.TERM{Ignore: true}})
		w.api.create(job(onExit, func(p *v1.Pod) { *p.Spec.TerminationGracePeriodSeconds = 5 }))
		w.eventually("succeeded", 30*time.Second, w.ended(v1.PodSucceeded))
		main, _ := w.cri.Newest("a", "main")
		hook, _ := w.cri.Newest("a", "main.exit-hook")
		if took := hook.FinishedAt.Sub(main.FinishedAt); took < 5*time.Second || took > 7*time.Second {
			t.Errorf("the hook was ended %s after its container", took)
		}
		want := []string{
			"Normal PreStopOnExit Running preStop hook of finished container main",
			"Warning FailedPreStopHook preStop hook of finished container main failed: it was ended when its time was up",
		}
		if diff := cmp.Diff(want, w.told("PreStopOnExit", "FailedPreStopHook", "Killing", "FailedKillPod")); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestFailureOfAHookAfterExitIsToldAndChangesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(w *world)
		want  string
	}{
		"exit code": {func(*world) {}, "it ended with exit code 7"},
		"cannot be made": {func(w *world) {
			w.cri.Inject(fakecri.Fault{Method: "CreateContainer", Skip: 1, Err: errors.New("no room")})
		}, "no room"},
		"cannot be begun": {func(w *world) {
			w.cri.Behave(fakecri.Selector{Container: "main.exit-hook"}, fakecri.Behaviour{StartError: "no such file"})
		}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.jobEnds(0, 7)
				tc.spoil(w)
				w.api.create(job(onExit))
				w.eventually("succeeded", 45*time.Second, w.ended(v1.PodSucceeded))
				told := w.told("FailedPreStopHook")
				if len(told) != 1 || !strings.Contains(told[0], "finished container main failed: ") || !strings.Contains(told[0], tc.want) {
					t.Errorf("told %q, want %q", told, tc.want)
				}
			})
		})
	}
}

func TestHookAfterExitWithoutASandboxIsTold(t *testing.T) {
	inWorld(t, func(w *world) {
		w.jobEnds(0, 0)
		w.api.create(job(onExit))
		w.eventually("running", 10*time.Second, w.running("a"))
		w.stop()
		time.Sleep(15 * time.Second)
		w.cri.KillSandbox(w.cri.Sandboxes("a")[0].ID)
		w.start()
		w.eventually("succeeded", 30*time.Second, w.ended(v1.PodSucceeded))
		want := []string{"Warning FailedPreStopHook preStop hook of finished container main failed: the pod's sandbox is gone, so it cannot run"}
		if diff := cmp.Diff(want, w.told("PreStopOnExit", "FailedPreStopHook")); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestEveryFinishedContainerRunsItsHookWhileSidecarsServe(t *testing.T) {
	inWorld(t, func(w *world) {
		w.jobEnds(0, 0)
		w.cri.Behave(fakecri.Selector{Container: "proxy"}, fakecri.Behaviour{})
		w.api.create(job(onExit, withSecond, func(p *v1.Pod) {
			p.Spec.RestartPolicy = v1.RestartPolicyOnFailure
			proxy := testContainer("proxy")
			proxy.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
			proxy.Lifecycle = p.Spec.Containers[0].Lifecycle.DeepCopy()
			p.Spec.InitContainers = []v1.Container{proxy}
		}))
		w.eventually("succeeded", 30*time.Second, w.ended(v1.PodSucceeded))
		want := map[string]int{"main": 1, "second": 1, "proxy": 1, "main.exit-hook": 1, "second.exit-hook": 1}
		if diff := cmp.Diff(want, w.starts()); diff != "" {
			t.Errorf("starts:\n%s", diff)
		}
		proxy, _ := w.cri.Newest("a", "proxy")
		hook, _ := w.cri.Newest("a", "second.exit-hook")
		if !proxy.FinishedAt.After(hook.FinishedAt) {
			t.Errorf("the sidecar ended at %s, the hook at %s", proxy.FinishedAt, hook.FinishedAt)
		}
		if runs := w.host.hookRuns(); !slices.Equal(runs, []string{"preStop " + proxy.ID}) {
			t.Errorf("ordinary hooks %v, want that of the sidecar %s", runs, proxy.ID)
		}
	})
}

func TestPauseAfterExitIsMadeByTheHost(t *testing.T) {
	inWorld(t, func(w *world) {
		w.jobEnds(0, 0)
		w.api.create(job(onExit, func(p *v1.Pod) {
			p.Spec.Containers[0].Lifecycle.PreStop = &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 3}}
		}))
		w.eventually("succeeded", 30*time.Second, w.ended(v1.PodSucceeded))
		main, _ := w.cri.Newest("a", "main")
		if runs := w.host.hookRuns(); !slices.Equal(runs, []string{"preStopOnExit " + main.ID}) {
			t.Errorf("ran %v", runs)
		}
		if n := len(w.cri.Containers("a")); n != 1 {
			t.Errorf("%d containers", n)
		}
	})
}

func TestContainerWhoseHookRanWhenItWasStoppedGetsNoSecondOne(t *testing.T) {
	inWorld(t, func(w *world) {
		w.jobEnds(0, 0)
		w.api.create(job(onExit))
		w.eventually("running", 10*time.Second, w.running("a"))
		main, _ := w.cri.Newest("a", "main")
		w.host.mu.Lock()
		w.host.hooks = append(w.host.hooks, "preStop "+main.ID) // as after a failed liveness probe
		w.host.mu.Unlock()
		w.eventually("succeeded", 30*time.Second, w.ended(v1.PodSucceeded))
		if diff := cmp.Diff(map[string]int{"main": 1}, w.starts()); diff != "" {
			t.Errorf("starts:\n%s", diff)
		}
	})
}

// TestHookAfterExitRunsOnceWhereverTheProcessDies kills the process at each call to the runtime from the end of the
// container to that of the pod: before the call had its effect, and after it.
func TestHookAfterExitRunsOnceWhereverTheProcessDies(t *testing.T) {
	for name, lost := range map[string]bool{"before the effect": false, "after the effect": true} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			for n, struck := 0, true; struck; n++ {
				inWorld(t, func(w *world) {
					w.guardI1()
					w.jobEnds(0, 0)
					w.api.create(job(onExit))
					w.eventually("running", 9*time.Second, w.running("a"))
					main, _ := w.cri.Newest("a", "main")
					time.Sleep(time.Until(main.StartedAt.Add(10*time.Second)) - time.Millisecond)
					fault := w.cri.Inject(fakecri.Fault{Skip: n, Times: 1, Lost: lost, Hang: !lost})
					<-fault.Reached() // at the latest by a relist
					struck = w.api.get("a").Status.Phase == v1.PodRunning
					time.AfterFunc(time.Millisecond, fault.Remove)
					w.restart()
					w.eventually("succeeded", 60*time.Second, w.ended(v1.PodSucceeded))
					if diff := cmp.Diff(map[string]int{"main": 1, "main.exit-hook": 1}, w.starts()); diff != "" {
						t.Errorf("call %d: starts:\n%s", n, diff)
					}
					if s := w.api.get("a").Status.ContainerStatuses; s[0].RestartCount != 0 || s[0].State.Terminated == nil || s[0].State.Terminated.ExitCode != 0 {
						t.Errorf("call %d: status %+v", n, s)
					}
				})
				if t.Failed() {
					return
				}
				calls = n
			}
			if calls < 20 {
				t.Errorf("the pod ended within %d calls", calls)
			}
		})
	}
}

func TestLinkLossDuringAHookAfterExitEndsAsIfItHadNotHappened(t *testing.T) {
	for _, after := range []time.Duration{-time.Second, 100 * time.Millisecond, time.Second, 2 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.guardI1()
				w.jobEnds(0, 0)
				w.api.create(job(onExit))
				w.eventually("running", 9*time.Second, w.running("a"))
				main, _ := w.cri.Newest("a", "main")
				time.Sleep(time.Until(main.StartedAt.Add(10*time.Second)) + after)
				w.cri.Cut()
				time.Sleep(10 * time.Second)
				w.cri.Mend()
				w.eventually("succeeded", 60*time.Second, w.ended(v1.PodSucceeded))
				if diff := cmp.Diff(map[string]int{"main": 1, "main.exit-hook": 1}, w.starts()); diff != "" {
					t.Errorf("starts:\n%s", diff)
				}
				if told := w.told("FailedPreStopHook"); len(told) != 0 {
					t.Errorf("told %q", told)
				}
			})
		})
	}
}

func TestStatusOfAnAnnotatedJobIsThatOfAnyOther(t *testing.T) {
	statusOf := func(edit func(*v1.Pod)) (s v1.PodStatus) {
		inWorld(t, func(w *world) {
			w.jobEnds(3, 7)
			w.api.create(job(withSecond, edit))
			w.eventually("failed", 30*time.Second, w.ended(v1.PodFailed))
			time.Sleep(5 * time.Minute)
			s = w.api.get("a").Status
		})
		return s
	}
	ids := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".ContainerID" }, cmp.Ignore())
	if diff := cmp.Diff(statusOf(func(*v1.Pod) {}), statusOf(onExit), cmpopts.IgnoreTypes(metav1.Time{}), ids); diff != "" {
		t.Errorf("without and with the annotation:\n%s", diff)
	}
}
