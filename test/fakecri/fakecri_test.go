// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package fakecri_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

// runPod makes a pod with one container run by way of the services.
func runPod(t *testing.T, c *cri.Client, uid, name string, attempt uint32) (sandboxID, containerID string) {
	t.Helper()
	labels := fakecri.DefaultIdentity.Labels()
	labels[cri.LabelPodUID] = uid
	sandbox := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "pod-" + uid, Namespace: "default", Uid: uid, Attempt: attempt},
		Labels:   labels,
	}
	sandboxID, err := c.RunSandbox(t.Context(), sandbox, "")
	if err != nil {
		t.Fatal(err)
	}
	return sandboxID, startContainer(t, c, sandboxID, sandbox, name, attempt)
}

func startContainer(
	t *testing.T, c *cri.Client, sandboxID string, sandbox *runtimeapi.PodSandboxConfig, name string, attempt uint32,
) string {
	t.Helper()
	ref, err := c.PullImage(t.Context(), &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: "busybox:1"}})
	if err != nil {
		t.Fatal(err)
	}
	id, err := c.CreateContainer(t.Context(), sandboxID, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name, Attempt: attempt},
		Image:    &runtimeapi.ImageSpec{Image: ref}, Labels: sandbox.GetLabels(),
	}, sandbox)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.StartContainer(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	return id
}

func TestStopSendsTermThenKillsAfterGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fakecri.Start(t, fakecri.Options{})
		rt.Behave(fakecri.Selector{}, fakecri.Behaviour{OnTERM: fakecri.TERM{Ignore: true}})
		c := rt.Client()
		_, id := runPod(t, c, "a", "main", 0)
		start := time.Now()
		if err := c.StopContainer(t.Context(), id, 7*time.Second); err != nil {
			t.Fatal(err)
		}
		got, _ := rt.Container(id)
		want := []fakecri.Signal{{Name: "TERM", At: start}, {Name: "KILL", At: start.Add(7 * time.Second)}}
		if diff := cmp.Diff(want, got.Signals); diff != "" {
			t.Errorf("signals (-want +got):\n%s", diff)
		}
		if got.ExitCode != 137 || got.State != runtimeapi.ContainerState_CONTAINER_EXITED {
			t.Errorf("ended with %d in state %s, want 137, exited", got.ExitCode, got.State)
		}
	})
}

func TestStopThatLosesItsCallerDoesNotKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fakecri.Start(t, fakecri.Options{})
		rt.Behave(fakecri.Selector{}, fakecri.Behaviour{OnTERM: fakecri.TERM{Ignore: true}})
		c := rt.Client()
		_, id := runPod(t, c, "a", "main", 0)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := c.StopContainer(ctx, id, 5*time.Second); !errdefs.IsDeadlineExceeded(err) {
			t.Fatalf("StopContainer = %v, want the context's deadline", err)
		}
		time.Sleep(time.Minute)
		if got := rt.Running("a"); len(got) != 1 {
			t.Fatalf("running %v, want the container to live on", got)
		}
		if err := c.StopContainer(t.Context(), id, time.Second); err != nil {
			t.Fatal(err)
		}
		got, _ := rt.Container(id)
		if n := len(got.Signals); n != 2 {
			t.Errorf("signals %v, want TERM once and KILL", got.Signals)
		}
	})
}

func TestEarliestOfConcurrentStopsKills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fakecri.Start(t, fakecri.Options{})
		rt.Behave(fakecri.Selector{}, fakecri.Behaviour{OnTERM: fakecri.TERM{Ignore: true}})
		c := rt.Client()
		_, id := runPod(t, c, "a", "main", 0)
		start := time.Now()
		stop := func(ctx context.Context, grace time.Duration) <-chan error {
			ended := make(chan error, 1)
			go func() { ended <- c.StopContainer(ctx, id, grace) }()
			synctest.Wait()
			return ended
		}
		abandoned, abandon := context.WithCancel(t.Context())
		long, gone, short := stop(t.Context(), time.Minute), stop(abandoned, time.Second), stop(t.Context(), 5*time.Second)
		abandon()
		if err := <-gone; !errdefs.IsCanceled(err) {
			t.Errorf("abandoned stop = %v, want Canceled", err)
		}
		for _, ended := range []<-chan error{long, short} {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if got, _ := rt.Container(id); !got.FinishedAt.Equal(start.Add(5 * time.Second)) {
			t.Errorf("killed after %s, want 5s", got.FinishedAt.Sub(start))
		}
	})
}

func TestCutEndsCallsInFlightAndMendRestores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fakecri.Start(t, fakecri.Options{})
		rt.Behave(fakecri.Selector{}, fakecri.Behaviour{OnTERM: fakecri.TERM{Ignore: true}})
		c := rt.Client()
		_, id := runPod(t, c, "a", "main", 0)
		ended := make(chan error, 1)
		go func() { ended <- c.StopContainer(t.Context(), id, time.Minute) }()
		synctest.Wait()
		rt.Cut()
		if err := <-ended; !errdefs.IsUnavailable(err) {
			t.Errorf("call in flight ended with %v, want Unavailable", err)
		}
		if _, err := c.ListContainers(t.Context(), ""); !errdefs.IsUnavailable(err) {
			t.Errorf("call after the cut ended with %v, want Unavailable", err)
		}
		rt.Mend()
		if _, err := c.ListContainers(t.Context(), ""); err != nil {
			t.Error(err)
		}
	})
}

func TestFaults(t *testing.T) {
	t.Run("lost answer has its effect", func(t *testing.T) {
		rt := fakecri.Start(t, fakecri.Options{})
		rt.Inject(fakecri.Fault{Method: "RunPodSandbox", Lost: true, Times: 1})
		cfg := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "p", Namespace: "n", Uid: "a"}}
		if _, err := rt.Client().RunSandbox(t.Context(), cfg, ""); !errdefs.IsUnavailable(err) {
			t.Fatalf("RunSandbox = %v, want Unavailable", err)
		}
		if n := len(rt.Sandboxes("a")); n != 1 {
			t.Fatalf("%d sandboxes, want the one whose answer was lost", n)
		}
		if _, err := rt.Client().RunSandbox(t.Context(), cfg, ""); !errdefs.IsFailedPrecondition(err) {
			t.Errorf("same attempt again = %v, want its name to be reserved", err)
		}
	})
	t.Run("error keeps its class and has no effect", func(t *testing.T) {
		rt := fakecri.Start(t, fakecri.Options{})
		pod := rt.Seed(fakecri.Pod{UID: "a", Name: "p", Containers: []string{"main"}})
		rt.Inject(fakecri.Fault{Method: "StopContainer", Skip: 1, Err: errdefs.ErrResourceExhausted})
		other := rt.Seed(fakecri.Pod{UID: "b", Name: "q", Containers: []string{"main"}})
		if err := rt.Client().StopContainer(t.Context(), other.Containers["main"], 0); err != nil {
			t.Errorf("skipped call failed: %v", err)
		}
		if err := rt.Client().StopContainer(t.Context(), pod.Containers["main"], 0); !errdefs.IsResourceExhausted(err) {
			t.Errorf("StopContainer = %v, want ResourceExhausted", err)
		}
		if n := len(rt.Running("a")); n != 1 {
			t.Errorf("%d containers run, want 1", n)
		}
	})
	t.Run("hang touches only the selected pod and ends with Remove", func(t *testing.T) {
		rt := fakecri.Start(t, fakecri.Options{})
		a := rt.Seed(fakecri.Pod{UID: "a", Name: "p", Containers: []string{"main"}})
		b := rt.Seed(fakecri.Pod{UID: "b", Name: "q", Containers: []string{"main"}})
		hang := rt.Inject(fakecri.Fault{Method: "ContainerStatus", Hang: true, Selector: fakecri.Selector{UID: "a"}})
		ended := make(chan error, 1)
		go func() {
			_, err := rt.Client().ContainerStatus(t.Context(), a.Containers["main"])
			ended <- err
		}()
		<-hang.Reached()
		if _, err := rt.Client().ContainerStatus(t.Context(), b.Containers["main"]); err != nil {
			t.Error(err)
		}
		hang.Remove()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestViolationsAreSeen(t *testing.T) {
	rt := fakecri.New(fakecri.Options{})
	c := rt.Client()
	first, _ := runPod(t, c, "a", "main", 0)
	second, _ := runPod(t, c, "a", "main", 1)
	for _, id := range []string{first, second} {
		if err := c.StopSandbox(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	var got []fakecri.ViolationKind
	for _, v := range rt.Violations() {
		got = append(got, v.Kind)
	}
	want := []fakecri.ViolationKind{fakecri.DoubleRunning, fakecri.KilledBySandbox, fakecri.KilledBySandbox}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
}

func TestLostContainerStillCountsAsAlive(t *testing.T) {
	rt := fakecri.New(fakecri.Options{})
	c := rt.Client()
	_, id := runPod(t, c, "a", "main", 0)
	rt.Lose(id)
	st, err := c.ContainerStatus(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if st.GetState() != runtimeapi.ContainerState_CONTAINER_UNKNOWN || st.GetCreatedAt() != 0 {
		t.Errorf("state %s created %d, want UNKNOWN, 0", st.GetState(), st.GetCreatedAt())
	}
	runPod(t, c, "a", "main", 1)
	if n := len(rt.Violations()); n != 1 {
		t.Errorf("%d violations, want the second start to be one", n)
	}
}

func TestContainerEndsByItselfOnAFakeClock(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(1000, 0))
	rt := fakecri.Start(t, fakecri.Options{Clock: clk, Skew: time.Hour})
	rt.Behave(fakecri.Selector{Container: "main"},
		fakecri.Behaviour{Exits: true, ExitAfter: 3 * time.Second, ExitCode: 4}, fakecri.Behaviour{})
	c := rt.Client()
	_, id := runPod(t, c, "a", "main", 0)
	clk.Step(10 * time.Second)
	st, err := c.ContainerStatus(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if st.GetExitCode() != 4 || st.GetFinishedAt() != time.Unix(1003, 0).Add(time.Hour).UnixNano() {
		t.Errorf("ended with %d at %d, want 4 at three seconds by the skewed clock", st.GetExitCode(), st.GetFinishedAt())
	}
	runPod(t, c, "a", "main", 1)
	clk.Step(time.Hour)
	if got := rt.Running("a"); len(got) != 1 {
		t.Errorf("running %v, want the second incarnation to take the second behaviour", got)
	}
}

func TestWaitReturnsWhenTheConditionHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fakecri.Start(t, fakecri.Options{})
		rt.Behave(fakecri.Selector{}, fakecri.Behaviour{Exits: true, ExitAfter: time.Minute})
		start := time.Now()
		rt.Seed(fakecri.Pod{UID: "a", Name: "p", Containers: []string{"main"}})
		if err := rt.Wait(t.Context(), func() bool { return len(rt.Running("a")) == 0 }); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != time.Minute {
			t.Errorf("waited %s, want 1m", took)
		}
	})
}

func TestServedOverGRPC(t *testing.T) {
	rt := fakecri.Start(t, fakecri.Options{})
	c := cri.NewClient(rt.Dial(t), cri.ClientOptions{Identity: fakecri.DefaultIdentity})
	_, id := runPod(t, c, "a", "main", 0)
	if _, err := c.ContainerStatus(t.Context(), "nope"); !errdefs.IsNotFound(err) {
		t.Errorf("ContainerStatus of nothing = %v, want NotFound", err)
	}
	if err := c.StopContainer(t.Context(), id, 0); err != nil {
		t.Fatal(err)
	}
	calls := rt.Calls("StopContainer")
	if len(calls) != 1 || calls[0].UID != "a" || calls[0].Container != "main" {
		t.Errorf("calls %+v, want one about container main of pod a", calls)
	}
}
