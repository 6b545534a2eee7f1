// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package pleg

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

func TestRequestReleasesAWaiterAtOnce(t *testing.T) {
	observed(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime) {
		pod := rt.Seed(fakecri.Pod{UID: "a", Name: "p", Containers: []string{"main"}})
		relists(1)
		drain(p)
		time.Sleep(100 * time.Millisecond)
		rt.Exit(pod.Containers["main"], 0)
		acted := time.Now()
		time.Sleep(time.Millisecond)
		p.RequestRelist("a")
		st, err := p.GetNewerThan(t.Context(), "a", acted)
		if err != nil || st.Newest("main").State != cri.ContainerExited {
			t.Fatalf("GetNewerThan = %+v, %v, want the exit", st, err)
		}
		if took := time.Since(acted); took > 10*time.Millisecond {
			t.Errorf("waited %s, want no relist period", took)
		}
		wantEvents(t, p, Event{UID: "a", Type: ContainerDied, ContainerID: pod.Containers["main"]})
	})
}

func TestWaiterForAnotherObservationIsWokenByAChangeOnly(t *testing.T) {
	observed(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime) {
		pod := rt.Seed(fakecri.Pod{UID: "a", Name: "p", Containers: []string{"main"}})
		relists(1)
		seen, err := p.Get("a")
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		time.AfterFunc(10*time.Second, func() { rt.Exit(pod.Containers["main"], 0) })
		st, err := p.GetOther(t.Context(), "a", seen)
		if err != nil || st.Newest("main").State != cri.ContainerExited || time.Since(begin) < 10*time.Second {
			t.Fatalf("GetOther = %+v, %v after %s, want the exit", st, err, time.Since(begin))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := p.GetOther(ctx, "a", st); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without a change: %v", err)
		}
	})
}

func TestRequestReleasesAWaiterAlsoWithoutAChange(t *testing.T) {
	observed(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime) {
		rt.Seed(fakecri.Pod{UID: "a", Name: "p", Containers: []string{"main"}})
		relists(1)
		drain(p)
		inspected := len(rt.Calls("ContainerStatus"))
		time.Sleep(100 * time.Millisecond)
		asked := time.Now()
		time.Sleep(time.Millisecond)
		p.RequestRelist("a")
		if _, err := p.GetNewerThan(t.Context(), "a", asked); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(asked); took > 10*time.Millisecond {
			t.Errorf("waited %s, want no relist period", took)
		}
		wantEvents(t, p)
		if n := len(rt.Calls("ContainerStatus")); n != inspected {
			t.Errorf("%d inspections of an unchanged pod", n-inspected)
		}
	})
}

func TestRequestedInspectionSeesWhatNoListTells(t *testing.T) {
	for name, during := range map[string]bool{"at rest": false, "during another inspection": true} {
		t.Run(name, func(t *testing.T) {
			observed(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime) {
				pod := rt.Seed(fakecri.Pod{UID: "a", Name: "p", Containers: []string{"main"}})
				other := rt.Inject(fakecri.Fault{Method: "PodSandboxStatus", Delay: time.Second, Times: 1})
				if !during {
					other.Remove()
				}
				relists(1)
				drain(p)
				resources := &runtimeapi.LinuxContainerResources{CpuShares: 7}
				if err := rt.Client().UpdateContainerResources(t.Context(), pod.Containers["main"], resources); err != nil {
					t.Fatal(err)
				}
				p.RequestInspection("a")
				time.Sleep(2 * time.Second)
				st, err := p.Get("a")
				if err != nil || st.Newest("main").Resources == nil || st.Newest("main").Resources.CPUShares != 7 {
					t.Errorf("observed %+v, %v", st, err)
				}
				if events := drain(p); !slices.Contains(events, Event{UID: "a", Type: PodSync}) {
					t.Errorf("events %v", events)
				}
				inspected := len(rt.Calls("ContainerStatus"))
				time.Sleep(5 * time.Second)
				if n := len(rt.Calls("ContainerStatus")) - inspected; n != 0 {
					t.Errorf("%d more inspections", n)
				}
			})
		})
	}
}

func TestReasonThatTheRuntimeLearnsLateIsSeen(t *testing.T) {
	for name, tc := range map[string]struct {
		code int32
		more int
	}{"killed": {137, 1}, "ended by itself": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			observed(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime) {
				pod := rt.Seed(fakecri.Pod{UID: "a", Name: "p", Containers: []string{"main"}})
				relists(1)
				rt.Exit(pod.Containers["main"], tc.code)
				relists(1)
				drain(p)
				inspected := len(rt.Calls("ContainerStatus"))
				rt.MarkOOM(pod.Containers["main"])
				time.Sleep(10 * lateReason)
				synctest.Wait()
				if n := len(rt.Calls("ContainerStatus")) - inspected; n != tc.more {
					t.Errorf("%d more inspections, want %d", n, tc.more)
				}
				st, err := p.Get("a")
				if seen := st.Newest("main").Reason == "OOMKilled"; err != nil || seen != (tc.more > 0) {
					t.Errorf("observed %+v, %v", st.Newest("main"), err)
				}
				if told := slices.Contains(drain(p), Event{UID: "a", Type: PodSync}); told != (tc.more > 0) {
					t.Errorf("told: %t", told)
				}
			})
		})
	}
}

func TestRequestDuringAnInspectionIsDoneAfterIt(t *testing.T) {
	observed(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime) {
		pod := rt.Seed(fakecri.Pod{UID: "a", Name: "p", Containers: []string{"main"}})
		hang := rt.Inject(fakecri.Fault{Method: "ContainerStatus", Hang: true, Times: 1})
		relists(1)
		rt.Exit(pod.Containers["main"], 0)
		acted := time.Now()
		time.Sleep(time.Millisecond)
		p.RequestRelist("a")
		synctest.Wait()
		hang.Remove()
		st, err := p.GetNewerThan(t.Context(), "a", acted)
		if err != nil || st.Newest("main").State != cri.ContainerExited {
			t.Fatalf("GetNewerThan = %+v, %v, want the exit", st, err)
		}
		if took := time.Since(acted); took > 10*time.Millisecond {
			t.Errorf("waited %s, want no relist period", took)
		}
	})
}

func TestRequestForAnUnknownPodDoesNoHarm(t *testing.T) {
	observed(t, func(t *testing.T, p *PLEG, _ *fakecri.Runtime) {
		asked := time.Now()
		p.RequestRelist("a")
		st, err := p.GetNewerThan(t.Context(), "a", asked)
		if err != nil || len(st.Containers) != 0 {
			t.Errorf("GetNewerThan = %+v, %v, want an empty observation from the next relist", st, err)
		}
		if took := time.Since(asked); took > 2*DefaultRelistPeriod {
			t.Errorf("waited %s", took)
		}
	})
}

func TestPodInFlightIsNeverAbsent(t *testing.T) {
	observed(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime) {
		// A relist on demand of a pod that is not known yet hangs and then fails, while complete lists show the pod.
		hang := rt.Inject(fakecri.Fault{Method: "ListContainers", Selector: fakecri.Selector{UID: "a"}, Hang: true, Err: errdefs.ErrUnavailable})
		rt.Seed(fakecri.Pod{UID: "a", Name: "p", Containers: []string{"main"}})
		began := time.Now()
		p.RequestRelist("a")
		relists(2)
		hang.Remove()
		st, err := p.GetNewerThan(t.Context(), "a", began)
		if err != nil || st.Newest("main") == nil {
			t.Errorf("GetNewerThan = %+v, %v, want the pod", st, err)
		}
	})
}

func TestOlderListDoesNotUndoANewerObservation(t *testing.T) {
	observed(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime) {
		pod := rt.Seed(fakecri.Pod{UID: "a", Name: "p"})
		relists(1)
		drain(p)
		// The answer of a complete list is held back while the pod is observed on demand after the sandbox stopped.
		l := newLoop(p)
		old, at, err := p.list(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
		rt.KillSandbox(pod.Sandbox)
		newer, newerAt, err := p.list(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		l.records["a"] = &record{states: newer["a"].states(), at: newerAt, listed: newer["a"]}
		l.relisted(t.Context(), old, at, nil)
		if len(l.inflight) != 0 {
			t.Error("the older list was taken for a change")
		}
		l.relisted(t.Context(), nil, at, nil)
		if l.records["a"] == nil {
			t.Error("the older list was taken for absence")
		}
	})
}

func TestGetNewerThan(t *testing.T) {
	t.Run("asks for what it waits for", func(t *testing.T) {
		observed(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime) {
			rt.Seed(fakecri.Pod{UID: "a", Name: "p", Containers: []string{"main"}})
			relists(2)
			for _, uid := range []types.UID{"a", "absent"} {
				now := time.Now()
				time.Sleep(time.Millisecond)
				_, err := p.GetNewerThan(t.Context(), uid, now)
				if took := time.Since(now); err != nil || took > 2*time.Millisecond {
					t.Errorf("GetNewerThan(%s) waited %s and ended with %v, want no wait for a relist", uid, took, err)
				}
			}
		})
	})
	t.Run("an observation begun at that very time is not newer", func(t *testing.T) {
		c := newCache()
		at := time.Unix(1, 0)
		c.set(&cri.PodStatus{UID: "a", ObservedAt: at})
		c.complete(at)
		for _, uid := range []types.UID{"a", "b"} {
			if _, changed, err := c.newerThan(uid, at); changed == nil {
				t.Errorf("newerThan(%s) = %v, want to be told to wait", uid, err)
			}
			if _, changed, err := c.newerThan(uid, at.Add(-1)); changed != nil || err != nil {
				t.Errorf("newerThan(%s) of before = %v, want an answer", uid, err)
			}
		}
	})
	t.Run("a failed inspection releases with its error", func(t *testing.T) {
		observed(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime) {
			rt.Inject(fakecri.Fault{Method: "ContainerStatus", Err: errdefs.ErrInternal})
			rt.Seed(fakecri.Pod{UID: "a", Name: "p", Containers: []string{"main"}})
			if _, err := p.GetNewerThan(t.Context(), "a", time.Now()); !errdefs.IsInternal(err) {
				t.Errorf("GetNewerThan = %v, want the inspection's error", err)
			}
		})
	})
	t.Run("ends with its context", func(t *testing.T) {
		observed(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime) {
			rt.Cut()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			st, err := p.GetNewerThan(ctx, "a", time.Now())
			if !errors.Is(err, context.DeadlineExceeded) || st != nil {
				t.Errorf("GetNewerThan = %v, %v, want the context's error", st, err)
			}
		})
	})
}
