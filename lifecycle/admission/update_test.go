// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestCheckUpdateTellsOnlyOfChangesWithoutEffect(t *testing.T) {
	debug := v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}}
	second := v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "second", Resources: v1.ResourceRequirements{Claims: []v1.ResourceClaim{{}}}}}
	for _, tc := range []struct {
		name   string
		before func(*v1.Pod)
		change func(*v1.Pod)
		want   []string
	}{
		{name: "nothing", change: func(*v1.Pod) {}},
		{name: "an image", change: func(p *v1.Pod) { p.Spec.Containers[0].Image = "busybox:1.37" }},
		{name: "labels and tolerations", change: func(p *v1.Pod) {
			p.Labels = map[string]string{"a": "b"}
			p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Key: "x"})
		}},
		{
			name:   "a debug container",
			change: func(p *v1.Pod) { p.Spec.EphemeralContainers = []v1.EphemeralContainer{debug} },
		},
		{
			name:   "a second debug container",
			before: func(p *v1.Pod) { p.Spec.EphemeralContainers = []v1.EphemeralContainer{debug} },
			change: func(p *v1.Pod) { p.Spec.EphemeralContainers = []v1.EphemeralContainer{debug, second} },
			want:   []string{"spec.ephemeralContainers[1].resources.claims"},
		},
		{
			name:   "something else in a pod that has a debug container",
			before: func(p *v1.Pod) { p.Spec.EphemeralContainers = []v1.EphemeralContainer{debug} },
			change: func(p *v1.Pod) { p.Spec.Containers[0].Image = "busybox:1.37" },
		},
		{
			name:   "a deadline",
			change: func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(5)) },
		},
		{
			name: "resources of two containers",
			change: func(p *v1.Pod) {
				p.Spec.InitContainers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
				p.Spec.Containers[0].Resources.Limits[v1.ResourceMemory] = resource.MustParse("2Gi")
			},
		},
		{
			name: "the same resources in other words",
			change: func(p *v1.Pod) {
				p.Spec.Containers[0].Resources.Limits[v1.ResourceMemory] = resource.MustParse("1024Mi")
			},
		},
		{
			name:   "an opt-in annotation",
			change: func(p *v1.Pod) { p.Annotations["tombolo.dev/prestop-on-exit"] = "yes" },
			want:   []string{"metadata.annotations[tombolo.dev/prestop-on-exit]"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old := parse(t, asStored)
			if tc.before != nil {
				tc.before(old)
			}
			updated := old.DeepCopy()
			tc.change(updated)
			var got []string
			for _, p := range CheckUpdate(old, updated) {
				got = append(got, p.Field)
				if p.Reason != "UnsupportedPodUpdate" || len(p.Message) == 0 {
					t.Errorf("incomplete problem %+v", p)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}
