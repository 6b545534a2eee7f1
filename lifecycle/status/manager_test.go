// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// bench is a Manager that runs in a bubble of its own time, and the API it writes to.
type bench struct {
	*Manager
	api *fakeAPI
	// runs says that a container of every pod could run.
	runs    atomic.Bool
	metrics *prometheus.Registry
}

// run plays a test in a bubble. When it ends, Run must return.
func run(t *testing.T, api *fakeAPI, play func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{api: api, metrics: prometheus.NewRegistry()}
		b.Manager = NewManager(Options{
			Sink: api, CouldHaveRunningContainers: func(types.UID) bool { return b.runs.Load() }, Registerer: b.metrics, Parallel: 4,
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); b.Run(ctx) }()
		defer func() { cancel(); <-done }()
		play(t, b)
	})
}

// pass lets time go by.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func podNamed(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Spec:       v1.PodSpec{RestartPolicy: v1.RestartPolicyNever, Containers: []v1.Container{{Name: "a"}}},
		Status:     v1.PodStatus{Phase: v1.PodPending},
	}
}

func deleting(pod *v1.Pod) *v1.Pod {
	pod = pod.DeepCopy()
	pod.DeletionTimestamp = &then
	return pod
}

func inPhase(p v1.PodPhase) v1.PodStatus { return v1.PodStatus{Phase: p} }

func expectCalls(t *testing.T, b *bench, want ...string) {
	t.Helper()
	if d := cmp.Diff(want, b.api.taken()); d != "" {
		t.Errorf("calls -want +got:\n%s", d)
	}
}

func expectPhase(t *testing.T, b *bench, name string, want v1.PodPhase) {
	t.Helper()
	pod := b.api.read(name)
	if pod == nil {
		t.Fatalf("pod %q does not exist", name)
	}
	if pod.Status.Phase != want {
		t.Errorf("the API has phase %s of pod %q, want %s", pod.Status.Phase, name, want)
	}
}

func TestSetIsWrittenAtOnce(t *testing.T) {
	pod := podNamed("web")
	run(t, newFakeAPI(pod), func(t *testing.T, b *bench) {
		b.Set(pod, inPhase(v1.PodRunning))
		pass(0)
		expectPhase(t, b, "web", v1.PodRunning)
		expectCalls(t, b, "get web", "patch web")
		if got, ok := b.Get(pod.UID); !ok || got.Phase != v1.PodRunning {
			t.Errorf("Get() = %v, %v", got.Phase, ok)
		}
	})
}

func TestNothingToSayIsNotSent(t *testing.T) {
	pod := podNamed("web")
	pod.Status = inPhase(v1.PodRunning)
	run(t, newFakeAPI(pod), func(t *testing.T, b *bench) {
		b.Set(pod, inPhase(v1.PodRunning))
		pass(0)
		expectCalls(t, b, "get web")
		b.Set(pod, inPhase(v1.PodRunning))
		pass(time.Minute)
		expectCalls(t, b)
	})
}

func TestManySetsDuringOneWriteMakeOneMore(t *testing.T) {
	pod := podNamed("web")
	run(t, newFakeAPI(pod), func(t *testing.T, b *bench) {
		b.api.failNext("get web", fail{hang: true})
		b.Set(pod, inPhase(v1.PodPending))
		pass(0)
		for i := range 50 {
			b.Set(pod, v1.PodStatus{Phase: v1.PodRunning, PodIP: fmt.Sprintf("10.0.0.%d", i)})
		}
		pass(time.Minute)
		expectCalls(t, b, "get web", "get web", "patch web")
		if ip := b.api.read("web").Status.PodIP; ip != "10.0.0.49" {
			t.Errorf("the API has %s, want the last", ip)
		}
	})
}

func TestHangingCallDelaysNoOtherPod(t *testing.T) {
	slow, others := podNamed("slow"), []*v1.Pod{podNamed("p0"), podNamed("p1"), podNamed("p2"), podNamed("p3"), podNamed("p4")}
	run(t, newFakeAPI(append(others, slow)...), func(t *testing.T, b *bench) {
		b.api.failNext("get slow", fail{hang: true})
		b.Set(slow, inPhase(v1.PodRunning))
		pass(0)
		for _, p := range others {
			b.Set(p, inPhase(v1.PodRunning))
		}
		pass(0)
		for _, p := range others {
			expectPhase(t, b, p.Name, v1.PodRunning)
		}
		expectPhase(t, b, "slow", v1.PodPending)
		pass(time.Minute)
		expectPhase(t, b, "slow", v1.PodRunning)
	})
}

func TestNoMoreThanParallelWritesAreUnderWay(t *testing.T) {
	var pods []*v1.Pod
	for i := range 10 {
		pods = append(pods, podNamed(fmt.Sprintf("p%d", i)))
	}
	run(t, newFakeAPI(pods...), func(t *testing.T, b *bench) {
		for _, p := range pods {
			b.api.failNext("get "+p.Name, fail{hang: true})
			b.Set(p, inPhase(v1.PodRunning))
		}
		pass(0)
		if calls := b.api.taken(); len(calls) != 4 {
			t.Errorf("%d calls are under way, want 4: %v", len(calls), calls)
		}
		pass(10 * time.Minute)
		for _, p := range pods {
			expectPhase(t, b, p.Name, v1.PodRunning)
		}
	})
}

func TestFailuresAreRepeatedForEverWithGrowingPauses(t *testing.T) {
	pod := podNamed("web")
	run(t, newFakeAPI(pod), func(t *testing.T, b *bench) {
		for range 9 {
			b.api.failNext("get web", fail{})
		}
		b.Set(pod, inPhase(v1.PodRunning))
		pass(time.Minute)
		times := b.api.when()
		var pauses []string
		for i := 1; i < 10; i++ {
			pauses = append(pauses, times[i].Sub(times[i-1]).String())
		}
		want := []string{"250ms", "500ms", "1s", "2s", "4s", "8s", "10s", "10s", "10s"}
		if d := cmp.Diff(want, pauses); d != "" {
			t.Errorf("pauses -want +got:\n%s", d)
		}
		expectPhase(t, b, "web", v1.PodRunning)

		// After a success the first pause is short again.
		b.api.taken()
		b.api.failNext("patch web", fail{})
		b.Set(pod, v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.0.0.1"})
		pass(250 * time.Millisecond)
		expectCalls(t, b, "patch web", "get web", "patch web")
		if got := testutil.ToFloat64(b.Manager.metrics.apiErrors.WithLabelValues("get")); got != 9 {
			t.Errorf("%v failed reads were counted, want 9", got)
		}
	})
}

func TestSetDuringAPauseWaitsForItsEnd(t *testing.T) {
	pod := podNamed("web")
	run(t, newFakeAPI(pod), func(t *testing.T, b *bench) {
		b.api.failNext("get web", fail{})
		b.Set(pod, inPhase(v1.PodPending))
		pass(100 * time.Millisecond)
		b.Set(pod, inPhase(v1.PodRunning))
		pass(100 * time.Millisecond)
		expectCalls(t, b, "get web")
		pass(50 * time.Millisecond)
		expectCalls(t, b, "get web", "patch web")
	})
}

func TestLostAnswerOfAPatchIsNoSecondPatch(t *testing.T) {
	pod := podNamed("web")
	run(t, newFakeAPI(pod), func(t *testing.T, b *bench) {
		b.api.failNext("patch web", fail{after: true})
		b.Set(pod, inPhase(v1.PodRunning))
		pass(time.Minute)
		expectCalls(t, b, "get web", "patch web", "get web")
	})
}

func TestTerminalPhaseWaitsForTheLastContainer(t *testing.T) {
	pod := podNamed("job")
	pod.Status = inPhase(v1.PodRunning)
	run(t, newFakeAPI(pod), func(t *testing.T, b *bench) {
		b.runs.Store(true)
		st := v1.PodStatus{Phase: v1.PodFailed, Reason: "DeadlineExceeded"}
		b.Set(pod, st)
		pass(30 * time.Second)
		expectPhase(t, b, "job", v1.PodRunning)
		b.runs.Store(false)
		b.Set(pod, st)
		pass(0)
		expectPhase(t, b, "job", v1.PodFailed)
	})
}

func TestTerminalPhaseIsToldByThePassIfNothingElseHappens(t *testing.T) {
	pod := podNamed("job")
	run(t, newFakeAPI(pod), func(t *testing.T, b *bench) {
		b.runs.Store(true)
		b.Set(pod, inPhase(v1.PodFailed))
		pass(time.Second)
		b.runs.Store(false)
		pass(10 * time.Second)
		expectPhase(t, b, "job", v1.PodFailed)
	})
}

func TestGonePodIsLeftAloneAndRemembered(t *testing.T) {
	pod := podNamed("web")
	run(t, newFakeAPI(), func(t *testing.T, b *bench) {
		b.Set(pod, inPhase(v1.PodRunning))
		pass(0)
		b.Set(pod, inPhase(v1.PodFailed))
		pass(time.Minute)
		expectCalls(t, b, "get web")
		if st, ok := b.Get(pod.UID); !ok || st.Phase != v1.PodFailed {
			t.Errorf("Get() = %s, %v, want the last status", st.Phase, ok)
		}
		b.Retain(map[types.UID]struct{}{})
		if _, ok := b.Get(pod.UID); ok {
			t.Error("Retain did not drop the pod")
		}
	})
}

func TestRetainKeepsWhatIsDesired(t *testing.T) {
	keep, drop := podNamed("keep"), podNamed("drop")
	run(t, newFakeAPI(keep, drop), func(t *testing.T, b *bench) {
		b.api.failNext("get drop", fail{}, fail{}, fail{})
		b.Set(keep, inPhase(v1.PodRunning))
		b.Set(drop, inPhase(v1.PodRunning))
		pass(0)
		b.api.taken()
		b.Retain(map[types.UID]struct{}{keep.UID: {}})
		pass(time.Minute)
		expectCalls(t, b)
		if _, ok := b.Get(keep.UID); !ok {
			t.Error("a desired pod was dropped")
		}
	})
}

// TestStatusIsSentAgainAfterAnotherWriter is report B33: the node controller sets Ready to False while the node is away.
func TestStatusIsSentAgainAfterAnotherWriter(t *testing.T) {
	pod := podNamed("web")
	st := v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{cond(v1.PodReady, v1.ConditionTrue, "", then)}}
	interfere := func(p *v1.Pod) { condition(p.Status.Conditions, v1.PodReady).Status = v1.ConditionFalse }
	run(t, newFakeAPI(pod), func(t *testing.T, b *bench) {
		b.Set(pod, st)
		pass(time.Minute)
		stale := b.api.read("web")
		b.api.taken()

		b.Observe(b.api.change(t, "web", interfere))
		pass(time.Second)
		expectCalls(t, b, "patch web")
		if c := condition(b.api.read("web").Status.Conditions, v1.PodReady); c.Status != v1.ConditionTrue {
			t.Error("Ready was not written again")
		}

		// What the watch delivers late is no reason to write.
		interfere(stale)
		b.Observe(stale)
		b.Observe(b.api.read("web"))
		pass(time.Minute)
		expectCalls(t, b)

		// Two who cannot agree do not spin.
		for range 10 {
			b.Observe(b.api.change(t, "web", interfere))
			pass(100 * time.Millisecond)
		}
		if calls := b.api.taken(); len(calls) > 4 {
			t.Errorf("%d calls within a second: %v", len(calls), calls)
		}
	})
}

func TestAnotherWriterDuringOurWriteIsSeen(t *testing.T) {
	pod := podNamed("web")
	run(t, newFakeAPI(pod), func(t *testing.T, b *bench) {
		held := make(chan struct{})
		b.api.failNext("patch web", fail{held: held})
		b.Set(pod, inPhase(v1.PodRunning))
		pass(0)
		b.Observe(b.api.change(t, "web", func(p *v1.Pod) { p.Status.Phase = v1.PodPending }))
		close(held)
		pass(time.Second)
		expectPhase(t, b, "web", v1.PodRunning)
	})
}

func TestChangesOfOthersAreNotOurs(t *testing.T) {
	pod := podNamed("web")
	run(t, newFakeAPI(pod), func(t *testing.T, b *bench) {
		b.Set(pod, inPhase(v1.PodRunning))
		pass(time.Minute)
		b.api.taken()
		b.Observe(b.api.change(t, "web", func(p *v1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, cond("example.com/x", v1.ConditionTrue, "", then))
			p.Status.NominatedNodeName = "n"
			p.Labels = map[string]string{"a": "b"}
		}))
		pass(time.Minute)
		expectCalls(t, b)
	})
}

func TestOlderServerThatDropsAFieldIsNotAskedAgain(t *testing.T) {
	pod := podNamed("web")
	pod.Generation = 3
	api := newFakeAPI(pod)
	api.forget = func(s *v1.PodStatus) { s.ObservedGeneration = 0 }
	run(t, api, func(t *testing.T, b *bench) {
		b.Set(pod, inPhase(v1.PodRunning))
		pass(0)
		b.Observe(api.read("web"))
		pass(time.Minute)
		expectCalls(t, b, "get web", "patch web")
	})
}

func TestWhatMustNotChangeIsKept(t *testing.T) {
	pod := podNamed("job")
	run(t, newFakeAPI(pod), func(t *testing.T, b *bench) {
		b.Set(pod, v1.PodStatus{Phase: v1.PodFailed, Reason: "Evicted", StartTime: &then, ObservedGeneration: 5})
		b.Set(pod, v1.PodStatus{Phase: v1.PodSucceeded, StartTime: &later})
		got, _ := b.Get(pod.UID)
		if got.Phase != v1.PodFailed || got.Reason != "Evicted" || !got.StartTime.Equal(&then) || got.ObservedGeneration != 5 {
			t.Errorf("got %s %q since %v, generation %d", got.Phase, got.Reason, got.StartTime, got.ObservedGeneration)
		}
	})
}

// TestSetTakesAStatusThatWasChangedByHand is for callers that copy a status, change it and leave the rest to the Manager.
func TestSetTakesAStatusThatWasChangedByHand(t *testing.T) {
	pod := podNamed("web")
	pod.Spec.RestartPolicy = v1.RestartPolicyAlways
	run(t, newFakeAPI(pod), func(t *testing.T, b *bench) {
		st := v1.PodStatus{
			Conditions:        []v1.PodCondition{cond(v1.PodReady, v1.ConditionFalse, "", then), {Type: v1.PodInitialized, Status: v1.ConditionTrue}},
			ContainerStatuses: list(ended("z", 1), waiting("a")),
		}
		st.ContainerStatuses[0].State.Terminated.Message = "\xff"
		b.Set(pod, st)
		first, _ := b.Get(pod.UID)
		if first.ContainerStatuses[0].Name != "a" || first.ContainerStatuses[1].State.Terminated.Message != "\uFFFD" {
			t.Errorf("the status was taken as it is: %+v", first.ContainerStatuses)
		}
		pass(time.Hour)
		changed := *first.DeepCopy()
		changed.Conditions[0].Status = v1.ConditionTrue
		changed.Conditions[1].LastTransitionTime = metav1.Now()
		b.Set(pod, changed)
		second, _ := b.Get(pod.UID)
		if at := second.Conditions[0].LastTransitionTime; !at.Equal(new(metav1.Now())) {
			t.Errorf("Ready changed at %v, want now", at)
		}
		if before, after := first.Conditions[1].LastTransitionTime, second.Conditions[1].LastTransitionTime; !before.Equal(&after) {
			t.Errorf("Initialized did not change, but its time did from %v to %v", before, after)
		}
	})
}

func TestImpossibleStatusIsDropped(t *testing.T) {
	pod := podNamed("job")
	run(t, newFakeAPI(pod), func(t *testing.T, b *bench) {
		b.Set(pod, v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: list(ended("a", 0))})
		b.Set(pod, v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.0.0.1", ContainerStatuses: list(running("a"))})
		if got, _ := b.Get(pod.UID); got.PodIP != "" || got.ContainerStatuses[0].State.Terminated == nil {
			t.Errorf("the status was taken: %+v", got)
		}
		if got := testutil.ToFloat64(b.Manager.metrics.refused); got != 1 {
			t.Errorf("%v refused statuses were counted, want 1", got)
		}
	})
}

func TestImpossibleStatusThatDoesNotGoAwayIsTaken(t *testing.T) {
	pod := podNamed("job")
	run(t, newFakeAPI(pod), func(t *testing.T, b *bench) {
		done := v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: list(ended("a", 0))}
		impossible := v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.0.0.1", ContainerStatuses: list(running("a"))}
		taken := func() bool {
			got, _ := b.Get(pod.UID)
			return got.PodIP != ""
		}
		b.Set(pod, done)
		b.Set(pod, impossible)
		pass(refuseFor - time.Second)
		b.Set(pod, impossible)
		if taken() {
			t.Fatal("the status was taken too early")
		}
		b.Set(pod, done)
		pass(time.Second)
		b.Set(pod, impossible)
		if taken() {
			t.Fatal("the status was taken, although a possible one was set meanwhile")
		}
		pass(refuseFor)
		b.Set(pod, impossible)
		if !taken() {
			t.Error("the status is refused for ever")
		}
		if len(b.refused) != 0 {
			t.Errorf("%v is still noted as refused", b.refused)
		}
		b.Set(pod, done)
		b.Set(pod, impossible)
		b.Retain(nil)
		if len(b.refused) != 0 {
			t.Errorf("a pod that is gone is still noted as refused: %v", b.refused)
		}
	})
}

func TestRejectedPodIsFailedAndCanBeDeleted(t *testing.T) {
	pod := podNamed("web")
	pod.Generation = 1
	pod.Status = v1.PodStatus{Phase: v1.PodPending, QOSClass: v1.PodQOSBurstable, Conditions: []v1.PodCondition{cond(v1.PodScheduled, v1.ConditionTrue, "", then)}}
	run(t, newFakeAPI(pod), func(t *testing.T, b *bench) {
		b.Reject(pod, "UnsupportedPodSpec", "spec.volumes[0] is not supported")
		pass(0)
		got := b.api.read("web").Status
		start := metav1.Now().Rfc3339Copy()
		want := v1.PodStatus{
			ObservedGeneration: 1, Phase: v1.PodFailed, Reason: "UnsupportedPodSpec",
			Message: "Pod was rejected: spec.volumes[0] is not supported", QOSClass: v1.PodQOSBurstable, StartTime: &start,
			Conditions: []v1.PodCondition{cond(v1.PodScheduled, v1.ConditionTrue, "", then)},
		}
		if !equal(&want, &got) {
			t.Errorf("-want +got:\n%s", cmp.Diff(want, got))
		}
		b.api.taken()
		gone := b.api.put(deleting(b.api.read("web")))
		b.Observe(gone)
		b.Finish(gone)
		pass(0)
		expectCalls(t, b, "delete web")
	})
}

func TestMetrics(t *testing.T) {
	pod := podNamed("job")
	run(t, newFakeAPI(pod), func(t *testing.T, b *bench) {
		b.api.failNext("get job", fail{})
		b.Set(pod, v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: list(running("a"))})
		pass(time.Minute)
		for range 2 {
			b.Set(pod, v1.PodStatus{Phase: v1.PodFailed, ContainerStatuses: list(ended("a", 3))})
		}
		pass(time.Minute)
		if err := testutil.GatherAndCompare(b.metrics, strings.NewReader(`
# HELP kubelet_terminated_containers_total Containers seen to have ended, by type, exit code and reason.
# TYPE kubelet_terminated_containers_total counter
kubelet_terminated_containers_total{container_type="container",exit_code="3",reason=""} 1
# HELP kubelet_pod_status_sync_duration_seconds Time in seconds from the first change of a pod's status that the API does not have yet until it has accepted the newest.
# TYPE kubelet_pod_status_sync_duration_seconds histogram
kubelet_pod_status_sync_duration_seconds_bucket{le="0.01"} 1
kubelet_pod_status_sync_duration_seconds_bucket{le="0.05"} 1
kubelet_pod_status_sync_duration_seconds_bucket{le="0.1"} 1
kubelet_pod_status_sync_duration_seconds_bucket{le="0.5"} 2
kubelet_pod_status_sync_duration_seconds_bucket{le="1"} 2
kubelet_pod_status_sync_duration_seconds_bucket{le="5"} 2
kubelet_pod_status_sync_duration_seconds_bucket{le="10"} 2
kubelet_pod_status_sync_duration_seconds_bucket{le="20"} 2
kubelet_pod_status_sync_duration_seconds_bucket{le="30"} 2
kubelet_pod_status_sync_duration_seconds_bucket{le="45"} 2
kubelet_pod_status_sync_duration_seconds_bucket{le="60"} 2
kubelet_pod_status_sync_duration_seconds_bucket{le="+Inf"} 2
kubelet_pod_status_sync_duration_seconds_sum 0.25
kubelet_pod_status_sync_duration_seconds_count 2
`), "kubelet_terminated_containers_total", "kubelet_pod_status_sync_duration_seconds"); err != nil {
			t.Error(err)
		}
	})
}

func TestRunReturnsWhenItsCallsHaveEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := podNamed("web")
		api := newFakeAPI(pod)
		api.failNext("get web", fail{hang: true})
		m := NewManager(Options{Sink: api, CouldHaveRunningContainers: func(types.UID) bool { return false }})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { m.Run(ctx); close(ended) }()
		m.Set(pod, inPhase(v1.PodRunning))
		pass(time.Second)
		cancel()
		<-ended
		if calls := api.taken(); len(calls) != 1 {
			t.Errorf("calls: %v", calls)
		}
	})
}
