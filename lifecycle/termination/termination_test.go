// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package termination

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

var ignoresTERM = fakecri.Behaviour{OnTERM: fakecri.TERM{Ignore: true}}

// scenario runs a test on fake time with a runtime that watches over its invariants.
func scenario(t *testing.T, f func(t *testing.T, rt *fakecri.Runtime)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, fakecri.Start(t, fakecri.Options{})) })
}

func mustStop(t *testing.T, b *bench, deadline time.Time) {
	t.Helper()
	if err := b.killPod(t.Context(), deadline); err != nil {
		t.Fatalf("KillPod: %v", err)
	}
	b.mustBeDown(t)
}

func (b *bench) mustBeDown(t *testing.T) {
	t.Helper()
	if got := b.rt.Running(podUID); len(got) > 0 {
		t.Errorf("containers %v still run", got)
	}
	for _, s := range b.rt.Sandboxes(podUID) {
		if s.Ready {
			t.Errorf("sandbox %s is still ready", s.ID)
		}
	}
}

func wantEvents(t *testing.T, b *bench, want ...string) {
	t.Helper()
	got := b.events.all()
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestHookTermAndKillShareOneBudget(t *testing.T) {
	for _, tc := range []struct {
		name    string
		hook    time.Duration
		stops   fakecri.Behaviour
		signals []string
		warned  bool
	}{
		{"hook, then a container that ends on TERM", 3 * time.Second, fakecri.Behaviour{}, []string{"TERM@3s"}, false},
		{"hook, then a container that ignores TERM", 3 * time.Second, ignoresTERM, []string{"TERM@3s", "KILL@10s"}, false},
		{"the kill waits for whole seconds", 2500 * time.Millisecond, ignoresTERM, []string{"TERM@2.5s", "KILL@10.5s"}, false},
		{"a hook that hangs leaves two seconds", time.Hour, ignoresTERM, []string{"TERM@10s", "KILL@12s"}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
				rt.Behave(fakecri.Selector{}, tc.stops)
				b := newBench(rt, 10, map[string]bool{"main": true}, "main")
				id := b.seeded.Containers["main"]
				b.hooks.plan[id] = hookPlan{takes: tc.hook}
				start := time.Now()
				mustStop(t, b, start.Add(10*time.Second))
				if diff := cmp.Diff(tc.signals, b.signals("main", start)); diff != "" {
					t.Errorf("signals (-want +got):\n%s", diff)
				}
				if b.hooks.running(id) {
					t.Error("the hook still runs")
				}
				want := []string{"Killing default/shop spec.containers{main}: Stopping container main"}
				if tc.warned {
					want = append(want, "FailedPreStopHook default/shop spec.containers{main}: PreStopHook failed")
				}
				wantEvents(t, b, want...)
			})
		})
	}
}

func TestHookGetsTheContainersIdentityAndTheWholeBudget(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, 10, map[string]bool{"main": true}, "main")
		id := b.seeded.Containers["main"]
		mustStop(t, b, time.Now().Add(10*time.Second))
		got := b.hooks.run(id).request
		if got.PodUID != podUID || got.ContainerID != id || got.Kind != "preStop" || got.Timeout != 10*time.Second {
			t.Errorf("hook request %+v", got)
		}
		if diff := cmp.Diff([]string{"bye", "main"}, got.Command); diff != "" {
			t.Errorf("command (-want +got):\n%s", diff)
		}
	})
}

func TestContainersStopAtOnceAndTheSandboxLast(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		rt.Behave(fakecri.Selector{Container: "slow"}, fakecri.Behaviour{OnTERM: fakecri.TERM{After: 4 * time.Second}})
		b := newBench(rt, 30, nil, "quick", "slow", "other")
		start := time.Now()
		mustStop(t, b, start.Add(30*time.Second))
		for _, name := range []string{"quick", "slow", "other"} {
			if diff := cmp.Diff([]string{"TERM@0s"}, b.signals(name, start)); diff != "" {
				t.Errorf("signals of %s (-want +got):\n%s", name, diff)
			}
		}
		calls := rt.Calls("StopPodSandbox")
		if len(calls) != 1 || calls[0].At.Sub(start) != 4*time.Second {
			t.Errorf("StopPodSandbox calls %+v, want one after 4s", calls)
		}
	})
}

func TestSandboxIsLeftAloneWhileAContainerMayRun(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, 5, nil, "main", "stuck")
		broken := rt.Inject(fakecri.Fault{
			Method: "StopContainer", Selector: fakecri.Selector{Container: "stuck"}, Err: errors.New("cannot kill it"),
		})
		if err := b.killPod(t.Context(), time.Now().Add(5*time.Second)); err == nil {
			t.Fatal("KillPod succeeded although a container could not be stopped")
		}
		if n := len(rt.Calls("StopPodSandbox")); n != 0 {
			t.Errorf("StopPodSandbox was called %d times", n)
		}
		broken.Remove()
		mustStop(t, b, time.Now().Add(5*time.Second))
		wantEvents(t, b,
			"Killing default/shop spec.containers{main}: Stopping container main",
			"Killing default/shop spec.containers{stuck}: Stopping container stuck")
	})
}

func TestOnlyWhatRunsGetsAHookAndASignal(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		all := map[string]bool{"ended": true, "lost": true, "main": true}
		b := newBench(rt, 5, all, "ended", "lost", "main")
		rt.Exit(b.seeded.Containers["ended"], 6)
		rt.Lose(b.seeded.Containers["lost"])
		mustStop(t, b, time.Now().Add(5*time.Second))
		if got := b.container("ended"); got.ExitCode != 6 || len(got.Signals) > 0 {
			t.Errorf("the ended container has code %d and signals %v", got.ExitCode, got.Signals)
		}
		for name, want := range map[string]bool{"ended": false, "lost": false, "main": true} {
			if got := b.hooks.run(b.seeded.Containers[name]) != nil; got != want {
				t.Errorf("hook of %s ran: %t, want %t", name, got, want)
			}
		}
		wantEvents(t, b,
			"Killing default/shop spec.containers{lost}: Stopping container lost",
			"Killing default/shop spec.containers{main}: Stopping container main")
	})
}

func TestNothingLeftIsASuccess(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, 5, nil)
		rt.Forget(podUID)
		mustStop(t, b, time.Now())
	})
}

func TestHookOutcomes(t *testing.T) {
	for _, tc := range []struct {
		name   string
		plan   hookPlan
		warned bool
	}{
		{"success", hookPlan{takes: time.Second}, false},
		{"failure", hookPlan{takes: time.Second, code: 3}, true},
		{"cannot be begun", hookPlan{err: errors.New("no such file")}, true},
		{"cut short by a crash of the host process", hookPlan{interrupted: true}, false},
		{"container ended meanwhile", hookPlan{ended: true}, false},
		{"container gone", hookPlan{err: errdefs.ErrNotFound}, false},
		{"host silent beyond the budget", hookPlan{silent: true}, true},
		{"host gives up before we do", hookPlan{err: context.DeadlineExceeded}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
				b := newBench(rt, 5, map[string]bool{"main": true}, "main")
				b.hooks.plan[b.seeded.Containers["main"]] = tc.plan
				mustStop(t, b, time.Now().Add(5*time.Second))
				want := []string{"Killing default/shop spec.containers{main}: Stopping container main"}
				if tc.warned {
					want = append(want, "FailedPreStopHook default/shop spec.containers{main}: PreStopHook failed")
				}
				wantEvents(t, b, want...)
			})
		})
	}
}

func TestHookThatFailsBecauseItsContainerEndedIsNoFailure(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, 5, map[string]bool{"main": true}, "main")
		id := b.seeded.Containers["main"]
		status := b.observe()
		rt.Exit(id, 0)
		b.hooks.plan[id] = hookPlan{err: errors.New("container is in CONTAINER_EXITED state")}
		err := b.term.KillPod(t.Context(), Request{Pod: b.pod, Status: status, Deadline: time.Now().Add(5 * time.Second)})
		if err != nil {
			t.Fatal(err)
		}
		wantEvents(t, b, "Killing default/shop spec.containers{main}: Stopping container main")
	})
}

func TestMainThatExitsDuringItsHookEndsTheWait(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, 60, map[string]bool{"main": true}, "main")
		id := b.seeded.Containers["main"]
		b.hooks.plan[id] = hookPlan{takes: 30 * time.Second}
		start := time.Now()
		time.AfterFunc(5*time.Second, func() {
			rt.Exit(id, 0)
			b.hooks.containerDied(id)
		})
		mustStop(t, b, start.Add(time.Minute))
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("the stop took %s, want 5s", took)
		}
		if got := b.container("main"); got.ExitCode != 0 || len(got.Signals) > 0 {
			t.Errorf("exit code %d, signals %v; want 0 and none", got.ExitCode, got.Signals)
		}
	})
}

func TestShorterDeadlineCutsTheHookShort(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		rt.Behave(fakecri.Selector{}, ignoresTERM)
		b := newBench(rt, 600, map[string]bool{"main": true}, "main")
		id := b.seeded.Containers["main"]
		b.hooks.plan[id] = hookPlan{takes: 600 * time.Second}
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := b.killPod(ctx, start.Add(600*time.Second)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("cancelled KillPod = %v", err)
		}
		if !b.hooks.running(id) {
			t.Error("cancelling must leave the hook running for the next call to join")
		}
		mustStop(t, b, time.Now().Add(time.Second))
		if took := time.Since(start); took > 9*time.Second {
			t.Errorf("the forced stop took %s after 5s of grace, want at most 4s more", took)
		}
		if b.hooks.running(id) {
			t.Error("the hook still runs")
		}
		wantEvents(t, b,
			"Killing default/shop spec.containers{main}: Stopping container main",
			"FailedPreStopHook default/shop spec.containers{main}: PreStopHook failed")
	})
}

func TestHookThatOutlivesACancelledCallIsNoFailure(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, 60, map[string]bool{"main": true}, "main")
		b.hooks.plan[b.seeded.Containers["main"]] = hookPlan{takes: 10 * time.Second}
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := b.killPod(ctx, start.Add(time.Minute)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("cancelled KillPod = %v", err)
		}
		if n := len(rt.Calls("StopContainer")); n != 0 {
			t.Errorf("StopContainer was called %d times before the hook ended", n)
		}
		mustStop(t, b, start.Add(30*time.Second))
		if diff := cmp.Diff([]string{"TERM@10s"}, b.signals("main", start)); diff != "" {
			t.Errorf("signals (-want +got):\n%s", diff)
		}
		wantEvents(t, b, "Killing default/shop spec.containers{main}: Stopping container main")
	})
}

func TestHookIsCountedOnceHoweverOftenItsContainerIsStopped(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, 60, map[string]bool{"main": true}, "main")
		b.hooks.plan[b.seeded.Containers["main"]] = hookPlan{code: 1}
		registry := prometheus.NewPedanticRegistry()
		b.term = New(Options{Runtime: rt.Client(), Hooks: b.hooks, Clock: clock.RealClock{}, Recorder: b.events, Registerer: registry})
		rt.Inject(fakecri.Fault{Method: "StopContainer", Err: errdefs.ErrInternal, Times: 2})
		for range 2 {
			if err := b.killPod(t.Context(), time.Now().Add(time.Minute)); err == nil {
				t.Fatal("KillPod succeeded in spite of the fault")
			}
		}
		mustStop(t, b, time.Now().Add(time.Minute))
		want := `
# HELP tombolo_prestop_hooks_total Cumulative number of preStop hooks that ended, by how they ended. A hook that was joined counts once.
# TYPE tombolo_prestop_hooks_total counter
tombolo_prestop_hooks_total{outcome="failed"} 1
`
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "tombolo_prestop_hooks_total"); err != nil {
			t.Error(err)
		}
	})
}

func TestShorterDeadlineReissuesTheStop(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		rt.Behave(fakecri.Selector{}, ignoresTERM)
		b := newBench(rt, 600, nil, "main")
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := b.killPod(ctx, start.Add(600*time.Second)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("cancelled KillPod = %v", err)
		}
		mustStop(t, b, time.Now().Add(3*time.Second))
		if diff := cmp.Diff([]string{"TERM@0s", "KILL@8s"}, b.signals("main", start)); diff != "" {
			t.Errorf("signals (-want +got):\n%s", diff)
		}
	})
}

func TestGraceOfThePodCountsFromTheFirstAttempt(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		rt.Behave(fakecri.Selector{}, ignoresTERM)
		b := newBench(rt, 10, nil, "main")
		start := time.Now()
		rt.Inject(fakecri.Fault{Method: "StopContainer", Err: errdefs.ErrInternal, Times: 1})
		if err := b.killPod(t.Context(), time.Time{}); err == nil {
			t.Fatal("KillPod succeeded in spite of the fault")
		}
		time.Sleep(3 * time.Second)
		mustStop(t, b, time.Time{})
		if diff := cmp.Diff([]string{"TERM@3s", "KILL@10s"}, b.signals("main", start)); diff != "" {
			t.Errorf("signals (-want +got):\n%s", diff)
		}
	})
}

func TestStopIssuesRemainingGraceAfterLostConnection(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		rt.Behave(fakecri.Selector{}, ignoresTERM)
		b := newBench(rt, 10, nil, "main")
		start := time.Now()
		time.AfterFunc(4*time.Second, rt.Cut)
		if err := b.killPod(t.Context(), start.Add(10*time.Second)); !errdefs.IsUnavailable(err) {
			t.Fatalf("KillPod over a broken link = %v, want Unavailable", err)
		}
		time.Sleep(3 * time.Second)
		rt.Mend()
		mustStop(t, b, start.Add(10*time.Second))
		calls := rt.Calls("StopContainer")
		if got := []time.Duration{calls[0].Grace, calls[1].Grace}; !slices.Equal(got, []time.Duration{10 * time.Second, 3 * time.Second}) {
			t.Errorf("grace of the calls %v, want 10s and the 3s that were left", got)
		}
		if diff := cmp.Diff([]string{"TERM@0s", "KILL@10s"}, b.signals("main", start)); diff != "" {
			t.Errorf("signals (-want +got):\n%s", diff)
		}
	})
}

func TestLostConnectionNeverRepeatsAHook(t *testing.T) {
	for _, tc := range []struct {
		name    string
		restart bool
	}{{"same process", false}, {"process restarted meanwhile", true}} {
		t.Run(tc.name, func(t *testing.T) {
			scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
				b := newBench(rt, 20, map[string]bool{"main": true}, "main")
				id := b.seeded.Containers["main"]
				b.hooks.plan[id] = hookPlan{takes: 8 * time.Second}
				start := time.Now()
				time.AfterFunc(2*time.Second, func() { rt.Cut(); b.hooks.setDown(errLink) })
				if err := b.killPod(t.Context(), start.Add(20*time.Second)); !errdefs.IsUnavailable(err) {
					t.Fatalf("KillPod over a broken link = %v, want Unavailable", err)
				}
				time.Sleep(3 * time.Second)
				rt.Mend()
				b.hooks.setDown(nil)
				if tc.restart {
					b.restart()
				}
				mustStop(t, b, start.Add(20*time.Second))
				if begun := b.hooks.run(id).begun.Sub(start); begun != 0 {
					t.Errorf("the hook began again at %s", begun)
				}
				if diff := cmp.Diff([]string{"TERM@8s"}, b.signals("main", start)); diff != "" {
					t.Errorf("signals (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestHookStillRunsWhenTheLinkCameBackTooLate(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, 10, map[string]bool{"main": true}, "main")
		id := b.seeded.Containers["main"]
		deadline := time.Now().Add(10 * time.Second)
		b.hooks.setDown(errLink)
		if err := b.killPod(t.Context(), deadline); !errdefs.IsUnavailable(err) {
			t.Fatalf("KillPod over a broken link = %v, want Unavailable", err)
		}
		time.Sleep(10 * time.Minute)
		b.hooks.setDown(nil)
		mustStop(t, b, deadline)
		if run := b.hooks.run(id); run == nil || run.request.Timeout != time.Second {
			t.Errorf("the hook's run %+v, want one with a second", run)
		}
	})
}

func TestHostThatDidNotAnswerIsAskedAgainWhenTheStopFails(t *testing.T) {
	for name, plan := range map[string]hookPlan{
		"silent": {silent: true}, "out of time": {err: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
				b := newBench(rt, 5, map[string]bool{"main": true}, "main")
				id := b.seeded.Containers["main"]
				b.hooks.plan[id] = plan
				deadline := time.Now().Add(5 * time.Second)
				rt.Cut()
				if err := b.killPod(t.Context(), deadline); !errdefs.IsUnavailable(err) {
					t.Fatalf("KillPod = %v, want Unavailable", err)
				}
				rt.Mend()
				b.hooks.reset() // the request had never arrived
				mustStop(t, b, deadline)
				if b.hooks.run(id) == nil {
					t.Error("the container was stopped without its hook")
				}
				wantEvents(t, b,
					"Killing default/shop spec.containers{main}: Stopping container main",
					"FailedPreStopHook default/shop spec.containers{main}: PreStopHook failed")
			})
		})
	}
}

func TestStopOfWhatIsGoneOrEndedIsASuccess(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		end  bool
	}{
		{"not found", errdefs.ErrNotFound, false},
		{"runtime says it has exited", errors.New("already exited"), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
				b := newBench(rt, 5, nil, "main")
				status := b.observe()
				rt.Inject(fakecri.Fault{Method: "StopContainer", Err: tc.err})
				rt.Exit(b.seeded.Containers["main"], 6)
				err := b.term.KillPod(t.Context(), Request{Pod: b.pod, Status: status, Deadline: time.Now().Add(5 * time.Second)})
				if err != nil {
					t.Fatal(err)
				}
				b.mustBeDown(t)
			})
		})
	}
}

func TestKillContainerUsesThePodsOwnGraceAcrossAttempts(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		rt.Behave(fakecri.Selector{}, ignoresTERM)
		b := newBench(rt, 6, map[string]bool{"main": true}, "main", "other")
		id := b.seeded.Containers["main"]
		b.hooks.plan[id] = hookPlan{takes: 2 * time.Second}
		kill := func() error {
			for _, cs := range b.observe().Running() {
				if cs.ID == id {
					return b.term.KillContainer(t.Context(), ContainerKill{
						Pod: b.pod, Container: cs, Why: "DefinitionChanged", Message: "Container main definition changed, will be restarted",
					})
				}
			}
			return nil
		}
		start := time.Now()
		rt.Inject(fakecri.Fault{Method: "StopContainer", Err: errdefs.ErrInternal, Times: 1})
		if err := kill(); err == nil {
			t.Fatal("KillContainer succeeded in spite of the fault")
		}
		if err := kill(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"TERM@2s", "KILL@6s"}, b.signals("main", start)); diff != "" {
			t.Errorf("signals (-want +got):\n%s", diff)
		}
		if got := rt.Running(podUID); !slices.Equal(got, []string{"other"}) {
			t.Errorf("running %v, want the other container untouched", got)
		}
		wantEvents(t, b, "Killing default/shop spec.containers{main}: Container main definition changed, will be restarted")
		if len(b.term.memory.pods) != 0 {
			t.Errorf("memory keeps %d pods after the container ended", len(b.term.memory.pods))
		}
	})
}

func TestOrphanIsStoppedFromItsAnnotations(t *testing.T) {
	handler := func(text string) map[string]string { return map[string]string{cri.AnnotationPreStopHandler: text} }
	for _, tc := range []struct {
		name         string
		annotations  map[string]string
		hook, warned bool
	}{
		{"exec", handler(`{"exec":{"command":["bye"]}}`), true, false},
		{"none", nil, false, false},
		{"httpGet", handler(`{"httpGet":{"port":80}}`), true, false},
		{"sleep", handler(`{"sleep":{"seconds":1}}`), true, false},
		{"tcpSocket", handler(`{"tcpSocket":{"port":80}}`), false, true},
		{"garbage", handler(`{"exec":`), false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
				b := newBench(rt, 5, nil)
				seeded := rt.Seed(fakecri.Pod{
					UID: podUID, Name: podName, Containers: []string{"main"}, Attempt: 1,
					Annotations: tc.annotations,
				})
				b.pod = nil
				mustStop(t, b, time.Now().Add(time.Second))
				if got := b.hooks.run(seeded.Containers["main"]) != nil; got != tc.hook {
					t.Errorf("hook ran: %t, want %t", got, tc.hook)
				}
				want := []string{"Killing default/shop spec.containers{main}: Stopping container main"}
				if tc.warned {
					want = append(want, "FailedPreStopHook default/shop spec.containers{main}: PreStopHook failed")
				}
				wantEvents(t, b, want...)
			})
		})
	}
}

func TestZeroDeadlineMeansThePodsOwnGrace(t *testing.T) {
	for _, orphan := range []bool{false, true} {
		t.Run(map[bool]string{false: "known pod", true: "orphan"}[orphan], func(t *testing.T) {
			scenario(t, func(t *testing.T, rt *fakecri.Runtime) { zeroDeadline(t, rt, orphan) })
		})
	}
}

func zeroDeadline(t *testing.T, rt *fakecri.Runtime, orphan bool) {
	rt.Behave(fakecri.Selector{}, ignoresTERM)
	b := newBench(rt, 6, nil)
	rt.Seed(fakecri.Pod{
		UID: podUID, Name: podName, Containers: []string{"main"}, Attempt: 1,
		Annotations: map[string]string{cri.AnnotationPodTerminationGrace: "6"},
	})
	if orphan {
		b.pod = nil
	}
	start := time.Now()
	mustStop(t, b, time.Time{})
	if diff := cmp.Diff([]string{"TERM@0s", "KILL@6s"}, b.signals("main", start)); diff != "" {
		t.Errorf("signals (-want +got):\n%s", diff)
	}
}

func TestForgetDropsEverythingOfThePod(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, 5, map[string]bool{"main": true}, "main", "other")
		mustStop(t, b, time.Now().Add(5*time.Second))
		if len(b.term.memory.pods[podUID]) == 0 {
			t.Fatal("nothing is remembered, so the test proves nothing")
		}
		b.term.Forget(podUID)
		if len(b.term.memory.pods) != 0 {
			t.Error("the pod is still remembered")
		}
	})
}

func TestInitContainerIsStoppedUnderItsOwnFieldPath(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, 5, nil, "setup")
		b.pod.Spec.InitContainers, b.pod.Spec.Containers = b.pod.Spec.Containers, []v1.Container{{Name: "main"}}
		mustStop(t, b, time.Now().Add(5*time.Second))
		wantEvents(t, b, "Killing default/shop spec.initContainers{setup}: Stopping container setup")
	})
}
