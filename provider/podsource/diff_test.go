// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsource

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/lifecycle"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// newPod returns a pod bound to node "n"; age orders pods.
func newPod(name string, uid types.UID, age time.Duration, change ...func(*v1.Pod)) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         "default",
			Name:              name,
			UID:               uid,
			CreationTimestamp: metav1.NewTime(epoch.Add(-age)),
			Labels:            map[string]string{"app": "x"},
		},
		Spec: v1.PodSpec{
			NodeName: "n",
			Containers: []v1.Container{{
				Name: "main", Image: "busybox:1",
				Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}},
			}},
		},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
	for _, c := range change {
		c(pod)
	}
	return pod
}

func snapshotOf(pods ...*v1.Pod) snapshot {
	s := snapshot{}
	for _, p := range pods {
		s[p.UID] = p
	}
	return s
}

func names(events []lifecycle.PodEvent) []string {
	var out []string
	for _, e := range events {
		if e.Pod == nil {
			out = append(out, e.Type.String())
			continue
		}
		out = append(out, e.Type.String()+" "+string(e.Pod.UID))
	}
	return out
}

func TestDiffTellsWhatAChangeMeans(t *testing.T) {
	base := func(change ...func(*v1.Pod)) *v1.Pod { return newPod("a", "u1", 0, change...) }
	deleted := metav1.NewTime(epoch)
	for name, tc := range map[string]struct {
		change func(*v1.Pod)
		want   []string
	}{
		"nothing":             {func(*v1.Pod) {}, nil},
		"resource version":    {func(p *v1.Pod) { p.ResourceVersion = "7" }, nil},
		"finalizers":          {func(p *v1.Pod) { p.Finalizers = []string{"x/y"} }, nil},
		"owners":              {func(p *v1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Name: "rs"}} }, nil},
		"generation":          {func(p *v1.Pod) { p.Generation = 2 }, nil},
		"same quantity":       {func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("1000m") }, nil},
		"empty map is no map": {func(p *v1.Pod) { p.Annotations = map[string]string{} }, nil},
		"labels":              {func(p *v1.Pod) { p.Labels = map[string]string{"app": "y"} }, []string{"updated u1"}},
		"annotations":         {func(p *v1.Pod) { p.Annotations = map[string]string{"a": "b"} }, []string{"updated u1"}},
		"image":               {func(p *v1.Pod) { p.Spec.Containers[0].Image = "busybox:2" }, []string{"updated u1"}},
		"deadline":            {func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To[int64](5) }, []string{"updated u1"}},
		"deletion":            {func(p *v1.Pod) { p.DeletionTimestamp = &deleted }, []string{"updated u1"}},
		"shorter grace":       {func(p *v1.Pod) { p.DeletionGracePeriodSeconds = ptr.To[int64](1) }, []string{"updated u1"}},
		"status":              {func(p *v1.Pod) { p.Status.Phase = v1.PodRunning }, []string{"reconciled u1"}},
		"status and labels": {func(p *v1.Pod) {
			p.Status.Phase = v1.PodRunning
			p.Labels = nil
		}, []string{"updated u1"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := names(diff(snapshotOf(base()), snapshotOf(base(tc.change))))
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("events (-want +got):\n%s", d)
			}
		})
	}
}

func TestDiffOrdersRemovalsAdditionsUpdatesReconcilesOldestFirst(t *testing.T) {
	relabel := func(p *v1.Pod) { p.Labels = nil }
	run := func(p *v1.Pod) { p.Status.Phase = v1.PodRunning }
	before := snapshotOf(
		newPod("status", "u1", 9*time.Hour), newPod("label", "u2", 8*time.Hour),
		newPod("gone-young", "u3", time.Hour), newPod("gone-old", "u4", 7*time.Hour),
		newPod("same", "u5", time.Hour),
	)
	after := snapshotOf(
		newPod("status", "u1", 9*time.Hour, run), newPod("label", "u2", 8*time.Hour, relabel),
		newPod("same", "u5", time.Hour),
		newPod("new-b", "u7", time.Minute), newPod("new-a", "u6", time.Minute), newPod("new-old", "u8", time.Hour),
	)
	want := []string{
		"removed u4", "removed u3", "added u8", "added u6", "added u7", "updated u2", "reconciled u1",
	}
	if d := cmp.Diff(want, names(diff(before, after))); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
}

func TestDiffTakesOneNameWithTwoUIDsForTwoPods(t *testing.T) {
	got := diff(snapshotOf(newPod("web-0", "old", time.Hour)), snapshotOf(newPod("web-0", "new", 0)))
	if d := cmp.Diff([]string{"removed old", "added new"}, names(got)); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}
