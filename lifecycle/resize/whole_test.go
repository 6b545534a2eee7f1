// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package resize

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/tombolo-dev/tombolo/cri"
)

// wholePodOf is a pod that asks for something as a whole; its first container leaves everything open.
func wholePodOf(generation int64, whole string) *v1.Pod {
	pod := podOf(generation, "- - - -", "100m 200m 10Mi 20Mi")
	pod.Spec.Resources = new(res(whole))
	return pod
}

func TestResizeOfAPodChangesItsOpenContainersAndWaitsForItsControlGroup(t *testing.T) {
	b := newBed()
	old := wholePodOf(1, "1 2 100Mi 200Mi")
	b.Add(old)
	b.Created(old, &old.Spec.Containers[0], "id-c0")
	b.Created(old, &old.Spec.Containers[1], "id-c1")
	b.Observe(old, runs(old))
	if got := b.condition("u", v1.PodResizeInProgress); got != "none" {
		t.Errorf("in progress before there is a wish: %s", got)
	}
	allocated := b.Desire(wholePodOf(2, "1 3 100Mi 400Mi"), always)
	b.Observe(allocated, runs(allocated))
	if got := b.condition("u", v1.PodResizeInProgress); got != "gen=2" {
		t.Errorf("in progress: %s", got)
	}
	if acted, err := b.Apply(t.Context(), allocated, runs(allocated)); err != nil || !acted {
		t.Fatalf("acted %v, error %v", acted, err)
	}
	want := []string{"id-c0 shares=2048 quota=200000 memory=419430400", "id-c0 shares=3072 quota=300000 memory=419430400"}
	if diff := cmp.Diff(want, b.runtime.told); diff != "" {
		t.Errorf("told the runtime (-want +got):\n%s", diff)
	}
	b.Observe(allocated, runs(allocated))
	if got := b.condition("u", v1.PodResizeInProgress); got != "gen=2" {
		t.Errorf("the control group is not settled: %s", got)
	}
	if whole, ok := b.WholePod(allocated); !ok || whole.Limits.Cpu().Value() != 2 {
		t.Errorf("in effect before it is settled: %v, %v", whole, ok)
	}
	if !b.Settled(allocated) || b.Settled(allocated) {
		t.Error("a change of the control group is told once")
	}
	b.Observe(allocated, runs(allocated))
	if got := b.condition("u", v1.PodResizeInProgress); got != "none" {
		t.Errorf("in progress after the end: %s", got)
	}
	if whole, _ := b.WholePod(allocated); whole.Limits.Cpu().Value() != 3 || whole.Limits.Memory().Value() != 400<<20 {
		t.Errorf("in effect at the end: %v", whole)
	}
	if diff := cmp.Diff([]string{"ResizeStarted", "ResizeCompleted"}, b.reasons()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestPodIsNotGivenLessMemoryThanItsContainersUseTogether(t *testing.T) {
	b := newBed()
	old := wholePodOf(1, "- - 100Mi 200Mi")
	b.Add(old)
	b.Observe(old, runs(old))
	b.runtime.usage["id-c0"], b.runtime.usage["id-c1"] = 30<<20, 15<<20
	allocated := b.Desire(wholePodOf(2, "- - 10Mi 45Mi"), always)
	const refusal = "attempting to set pod memory limit (47185920) below current usage (47185920)"
	if acted, err := b.Apply(t.Context(), allocated, runs(allocated)); acted || err == nil || err.Error() != refusal {
		t.Errorf("acted %v, %v; want %q", acted, err, refusal)
	}
	if got := b.condition("u", v1.PodResizeInProgress); !strings.Contains(got, refusal) {
		t.Errorf("condition %q", got)
	}
	b.runtime.usage["id-c0"] = 1 << 20
	if acted, err := b.Apply(t.Context(), allocated, runs(allocated)); !acted || err != nil {
		t.Errorf("with less in use: acted %v, %v", acted, err)
	}
}

func TestResizeOfAPodThatDoesNotFitWaits(t *testing.T) {
	b := newBed()
	b.Add(wholePodOf(1, "1 2 100Mi 200Mi"))
	got := b.Desire(wholePodOf(2, "9 9 100Mi 200Mi"), never)
	if wholeOf(got).cpuRequest != 1000 {
		t.Errorf("was allocated %v", got.Spec.Resources)
	}
	if got := b.condition("u", v1.PodResizePending); got != "Deferred no room gen=2" {
		t.Errorf("pending: %s", got)
	}
	if got := b.Retry(always); len(got) != 1 || b.Waiting() {
		t.Errorf("retry changed %v", got)
	}
}

// TestResizeOfAPodIsRecoveredFromItsStatus: the process died while a change waited, or was allocated and not done.
func TestResizeOfAPodIsRecoveredFromItsStatus(t *testing.T) {
	told := func(pod *v1.Pod, has string) *v1.Pod {
		r := res(has)
		view := pod.DeepCopy()
		view.Spec.Resources = &r
		pod.Status.AllocatedResources = resourcehelper.PodRequests(view, resourcehelper.PodResourcesOptions{})
		pod.Status.Resources = &r
		return pod
	}
	t.Run("waits", func(t *testing.T) {
		b := newBed()
		pod := told(wholePodOf(2, "9 - - 9Gi"), "1 - - 200Mi")
		pod.Status.ObservedGeneration = 2
		pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Reason: v1.PodReasonDeferred}}
		if got := wholeOf(b.Add(pod)); got.cpuRequest != 1000 || got.memoryLimit != 200<<20 || got.memoryRequest != 0 {
			t.Errorf("allocated %+v", got)
		}
	})
	t.Run("is under way", func(t *testing.T) {
		b := newBed()
		pod := told(wholePodOf(2, "1 3 100Mi 400Mi"), "1 2 100Mi 200Mi")
		pod.Status.ObservedGeneration = 2
		b.Add(pod)
		b.Observe(pod, runs(pod))
		if got := b.condition("u", v1.PodResizeInProgress); got != "gen=2" {
			t.Errorf("in progress: %s", got)
		}
		if !b.Settled(pod) {
			t.Error("nothing changed")
		}
	})
}

func TestPodThatAsksForNothingByItselfHasNothingToSettle(t *testing.T) {
	b := newBed()
	pod := podOf(1, "100m 200m 10Mi 20Mi")
	b.Add(pod)
	b.Observe(pod, &cri.PodStatus{UID: pod.UID})
	if b.Settled(pod) || len(b.Conditions("u")) > 0 {
		t.Errorf("conditions %v", b.Conditions("u"))
	}
}
