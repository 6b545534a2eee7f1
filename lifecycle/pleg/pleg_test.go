// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package pleg

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

// observed runs f in a bubble with fake time, beside a PLEG that works on a runtime in memory and has relisted once.
func observed(t *testing.T, f func(t *testing.T, p *PLEG, rt *fakecri.Runtime)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		rt := fakecri.Start(t, fakecri.Options{})
		p := New(Options{Runtime: rt.Client()})
		run(t, p)
		f(t, p, rt)
	})
}

// run lets p work until the test ends, and waits for the first relist.
func run(t *testing.T, p *PLEG) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	synctest.Wait()
}

// relists lets time for n relists pass.
func relists(n int) {
	time.Sleep(time.Duration(n)*DefaultRelistPeriod + time.Millisecond)
	synctest.Wait()
}

// drain returns the events that wait.
func drain(p *PLEG) []Event {
	var out []Event
	for {
		select {
		case e := <-p.Events():
			out = append(out, e)
		default:
			return out
		}
	}
}

func wantEvents(t *testing.T, p *PLEG, want ...Event) {
	t.Helper()
	if diff := cmp.Diff(want, drain(p)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestCompare(t *testing.T) {
	type states = map[string]state
	event := func(types ...EventType) (out []Event) {
		for _, typ := range types {
			e := Event{UID: "u", Type: typ, ContainerID: "c"}
			if typ == PodSync {
				e.ContainerID = ""
			}
			out = append(out, e)
		}
		return out
	}
	for _, tt := range []struct {
		before, now state
		want        []Event
		unchanged   bool
	}{
		{before: absent, now: created},
		{before: absent, now: running, want: event(ContainerStarted)},
		{before: absent, now: exited, want: event(ContainerDied)},
		{before: absent, now: unknown, want: event(PodSync)},
		{before: created, now: created, unchanged: true},
		{before: created, now: running, want: event(ContainerStarted)},
		{before: created, now: exited, want: event(ContainerDied)},
		{before: created, now: absent, want: event(ContainerDied, ContainerRemoved)},
		{before: running, now: running, unchanged: true},
		{before: running, now: exited, want: event(ContainerDied)},
		{before: running, now: unknown, want: event(PodSync)},
		{before: running, now: absent, want: event(ContainerDied, ContainerRemoved)},
		{before: exited, now: exited, unchanged: true},
		{before: exited, now: running, want: event(ContainerStarted)},
		{before: exited, now: absent, want: event(ContainerRemoved)},
		{before: unknown, now: running, want: event(ContainerStarted)},
		{before: unknown, now: exited, want: event(ContainerDied)},
		{before: unknown, now: absent, want: event(ContainerDied, ContainerRemoved)},
	} {
		t.Run(fmt.Sprintf("%d to %d", tt.before, tt.now), func(t *testing.T) {
			before, now := states{"c": tt.before}, states{"c": tt.now}
			if tt.before == absent {
				before = nil
			}
			if tt.now == absent {
				now = nil
			}
			got, changed := compare("u", before, now)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if changed == tt.unchanged {
				t.Errorf("changed = %t", changed)
			}
		})
	}
}

func TestLifeOfAPodIsToldAndCached(t *testing.T) {
	observed(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime) {
		pod := rt.Seed(fakecri.Pod{UID: "a", Name: "web", Namespace: "shop", Containers: []string{"main"}})
		main := pod.Containers["main"]
		relists(1)
		wantEvents(t, p,
			Event{UID: "a", Type: ContainerStarted, ContainerID: pod.Sandbox},
			Event{UID: "a", Type: ContainerStarted, ContainerID: main})
		st, err := p.Get("a")
		if err != nil {
			t.Fatal(err)
		}
		if st.Name != "web" || st.Namespace != "shop" || len(st.IPs) != 1 || st.Newest("main").State != cri.ContainerRunning {
			t.Errorf("observation %+v, want a running pod shop/web with an address", st)
		}
		if got := st.Newest("main").SandboxID; got != pod.Sandbox {
			t.Errorf("sandbox of the container %q, want %q", got, pod.Sandbox)
		}

		relists(3)
		wantEvents(t, p)

		rt.Exit(main, 3)
		relists(1)
		wantEvents(t, p, Event{UID: "a", Type: ContainerDied, ContainerID: main})
		if st, _ := p.Get("a"); st.Newest("main").ExitCode != 3 {
			t.Errorf("exit code %d, want 3", st.Newest("main").ExitCode)
		}

		if err := rt.Client().RemoveContainer(t.Context(), main); err != nil {
			t.Fatal(err)
		}
		relists(1)
		wantEvents(t, p, Event{UID: "a", Type: ContainerRemoved, ContainerID: main})

		rt.Forget("a")
		relists(1)
		wantEvents(t, p,
			Event{UID: "a", Type: ContainerDied, ContainerID: pod.Sandbox},
			Event{UID: "a", Type: ContainerRemoved, ContainerID: pod.Sandbox})
		st, err = p.Get("a")
		if err != nil || st.UID != "a" || len(st.Sandboxes) != 0 {
			t.Errorf("Get after the pod vanished = %+v, %v, want an empty observation", st, err)
		}
	})
}

func TestForeignPodsAreNotSeen(t *testing.T) {
	observed(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime) {
		rt.Seed(fakecri.Pod{UID: "a", Name: "p", Identity: cri.Identity{Cluster: "test-cluster", Node: "other"}})
		relists(1)
		wantEvents(t, p)
		if pods, _, _ := p.Observation(); len(pods) != 0 {
			t.Errorf("observed %v, want nothing", pods)
		}
	})
}

func TestStoppedPodKeepsItsIPs(t *testing.T) {
	observed(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime) {
		pod := rt.Seed(fakecri.Pod{UID: "a", Name: "p"})
		relists(1)
		before, _ := p.Get("a")
		rt.KillSandbox(pod.Sandbox)
		relists(1)
		after, _ := p.Get("a")
		if after.ReadySandbox() != nil || len(before.IPs) != 1 || !slices.Equal(before.IPs, after.IPs) {
			t.Errorf("IPs before %v and after %v the sandbox stopped, want the same", before.IPs, after.IPs)
		}

		second := rt.Seed(fakecri.Pod{UID: "a", Name: "p", Attempt: 1})
		relists(1)
		renewed, _ := p.Get("a")
		if got := rt.Sandboxes("a")[1].IP; len(renewed.IPs) != 1 || renewed.IPs[0] != got || renewed.Sandboxes[0].ID != second.Sandbox {
			t.Errorf("IPs %v, want that of the new sandbox, %s", renewed.IPs, got)
		}
	})
}

func TestFailedInspectionIsRepeatedAndTellsTheChangeOnce(t *testing.T) {
	observed(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime) {
		pod := rt.Seed(fakecri.Pod{UID: "a", Name: "p", Containers: []string{"main"}})
		relists(1)
		drain(p)
		good, _ := p.Get("a")

		fault := rt.Inject(fakecri.Fault{Method: "ContainerStatus", Err: errdefs.ErrUnknown})
		rt.Exit(pod.Containers["main"], 1)
		relists(2)
		wantEvents(t, p)
		st, err := p.Get("a")
		if !errdefs.IsUnknown(err) || st != good {
			t.Errorf("Get = %p, %v, want the last good observation %p and the error", st, err, good)
		}
		if n := testutil.ToFloat64(p.metrics.stale); n != 1 {
			t.Errorf("%v stale pods, want 1", n)
		}

		fault.Remove()
		relists(2)
		wantEvents(t, p, Event{UID: "a", Type: ContainerDied, ContainerID: pod.Containers["main"]})
		if st, err := p.Get("a"); err != nil || st.Newest("main").ExitCode != 1 {
			t.Errorf("Get = %+v, %v, want the exit", st, err)
		}
		if n := testutil.ToFloat64(p.metrics.stale); n != 0 {
			t.Errorf("%v stale pods, want none", n)
		}
	})
}

func TestFailedFirstInspectionOfAVanishingChangeYieldsPodSync(t *testing.T) {
	observed(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime) {
		rt.Seed(fakecri.Pod{UID: "a", Name: "p"})
		relists(1)
		drain(p)
		// A second sandbox comes, cannot be inspected, and goes: nothing differs in the end, but a reader of the cache
		// saw an error in between.
		rt.Inject(fakecri.Fault{Method: "PodSandboxStatus", Err: errdefs.ErrUnknown, Times: 1})
		second := rt.Seed(fakecri.Pod{UID: "a", Name: "p", Attempt: 1})
		relists(1)
		if err := rt.Client().RemoveSandbox(t.Context(), second.Sandbox); err != nil {
			t.Fatal(err)
		}
		relists(1)
		wantEvents(t, p, Event{UID: "a", Type: PodSync})
	})
}

func TestObjectsThatVanishBeforeInspectionAreLeftOut(t *testing.T) {
	observed(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime) {
		pod := rt.Seed(fakecri.Pod{UID: "a", Name: "p", Containers: []string{"main", "gone"}})
		rt.Inject(fakecri.Fault{
			Method: "ContainerStatus", Selector: fakecri.Selector{ID: pod.Containers["gone"]}, Err: errdefs.ErrNotFound,
		})
		relists(1)
		st, err := p.Get("a")
		if err != nil || st.Newest("gone") != nil || st.Newest("main") == nil {
			t.Errorf("Get = %+v, %v, want only container main", st, err)
		}
	})
}

func TestLostContainerWakesThePod(t *testing.T) {
	observed(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime) {
		pod := rt.Seed(fakecri.Pod{UID: "a", Name: "p", Containers: []string{"main"}})
		relists(1)
		drain(p)
		rt.Lose(pod.Containers["main"])
		relists(1)
		wantEvents(t, p, Event{UID: "a", Type: PodSync})
		st, _ := p.Get("a")
		if got := st.Newest("main").State; got != cri.ContainerUnknown {
			t.Errorf("state %s, want unknown", got)
		}
	})
}

func TestFailingListsAreNeverAbsence(t *testing.T) {
	for _, method := range []string{"ListPodSandbox", "ListContainers"} {
		t.Run(method, func(t *testing.T) {
			observed(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime) {
				rt.Seed(fakecri.Pod{UID: "a", Name: "p", Containers: []string{"main"}})
				relists(1)
				drain(p)
				_, at, _ := p.Observation()
				before, _ := p.Get("a")
				rt.Inject(fakecri.Fault{Method: method, Err: errdefs.ErrUnavailable})
				relists(5)
				wantEvents(t, p)
				if after, err := p.Get("a"); after != before || err != nil {
					t.Errorf("Get = %+v, %v, want the last observation", after, err)
				}
				pods, still, ok := p.Observation()
				if len(pods) != 1 || !ok || !still.Equal(at) {
					t.Errorf("Observation = %v, %s, %t, want that of %s", pods, still, ok, at)
				}
			})
		})
	}
}

func TestHealthy(t *testing.T) {
	observed(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime) {
		<-p.Observed()
		if err := p.Healthy(); err != nil {
			t.Fatalf("Healthy = %v after a relist", err)
		}
		rt.Cut()
		time.Sleep(DefaultRelistThreshold)
		if err := p.Healthy(); err != nil {
			t.Errorf("Healthy = %v within the threshold", err)
		}
		time.Sleep(time.Second)
		want := "pleg was last seen active 3m1s ago; threshold is 3m0s"
		if err := p.Healthy(); err == nil || err.Error() != want {
			t.Errorf("Healthy = %v, want %q", err, want)
		}
		rt.Mend()
		relists(1)
		if err := p.Healthy(); err != nil {
			t.Errorf("Healthy = %v after lists succeed again", err)
		}
	})
	p := New(Options{Clock: clocktesting.NewFakeClock(time.Unix(1, 0))})
	if err := p.Healthy(); err == nil || err.Error() != "pleg has yet to be successful" {
		t.Errorf("Healthy = %v before the first relist", err)
	}
	if _, _, ok := p.Observation(); ok {
		t.Error("Observation before the first relist is ok")
	}
	select {
	case <-p.Observed():
		t.Error("Observed before the first relist")
	default:
	}
}

func TestObservationTellsWhatMayRun(t *testing.T) {
	observed(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime) {
		stopped := rt.Seed(fakecri.Pod{UID: "stopped", Name: "s", Containers: []string{"main"}})
		rt.KillSandbox(stopped.Sandbox)
		rt.Seed(fakecri.Pod{UID: "ready", Name: "r"})
		lost := rt.Seed(fakecri.Pod{UID: "lost", Name: "l", Containers: []string{"main"}})
		rt.KillSandbox(lost.Sandbox)
		rt.Lose(lost.Containers["main"])
		relists(1)
		pods, _, _ := p.Observation()
		got := map[types.UID]bool{}
		for _, pod := range pods {
			got[pod.UID] = pod.Running
		}
		if diff := cmp.Diff(map[types.UID]bool{"stopped": false, "ready": true, "lost": true}, got); diff != "" {
			t.Errorf("running (-want +got):\n%s", diff)
		}
	})
}

func TestPodOnTheHostsNetworkHasTheHostsAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fakecri.Start(t, fakecri.Options{})
		p := New(Options{Runtime: rt.Client(), HostIPs: func() []string { return []string{"192.0.2.1", "2001:db8::1"} }})
		run(t, p)
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "h", Name: "h", Namespace: "ns"}, Spec: v1.PodSpec{HostNetwork: true}}
		cfg, err := cri.SandboxConfig(cri.SandboxInput{Pod: pod, Identity: fakecri.DefaultIdentity})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rt.Client().RunSandbox(t.Context(), cfg, ""); err != nil {
			t.Fatal(err)
		}
		rt.Seed(fakecri.Pod{UID: "own", Name: "own"})
		relists(1)
		for uid, want := range map[types.UID][]string{"h": {"192.0.2.1", "2001:db8::1"}, "own": nil} {
			st, err := p.Get(uid)
			if err != nil || want != nil && !slices.Equal(st.IPs, want) || want == nil && (len(st.IPs) != 1 || st.IPs[0] == "192.0.2.1") {
				t.Errorf("pod %s has the addresses %v, %v", uid, st.IPs, err)
			}
		}
	})
}
