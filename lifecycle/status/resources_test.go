// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tombolo-dev/tombolo/cri"
)

func both(cpu, memory string) v1.ResourceRequirements {
	list := func() v1.ResourceList {
		return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
	}
	return v1.ResourceRequirements{Requests: list(), Limits: list()}
}

func resizedPod() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Generation: 7},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "a", Resources: both("2", "2Gi")}}},
	}
}

func TestResourcesAreThoseInEffectWhileTheContainerRuns(t *testing.T) {
	old := both("1", "1Gi")
	inEffect := &cri.LinuxResources{CPUShares: 1024, CPUPeriod: 100000, CPUQuota: 100000, MemoryLimitBytes: 1 << 30}
	runs, reports, ended := rec(1, cri.ContainerRunning, 1), rec(1, cri.ContainerRunning, 1), exited(1, 0, 1)
	reports.Resources, ended.Resources = inEffect, inEffect
	for name, tc := range map[string]struct {
		record   cri.ContainerStatus
		actuated *v1.ResourceRequirements
		want     v1.ResourceRequirements
	}{
		"nothing is known":       {runs, nil, both("2", "2Gi")},
		"the runtime was told":   {runs, &old, old},
		"the runtime reports":    {reports, &old, old},
		"the request is unknown": {reports, nil, v1.ResourceRequirements{Requests: both("1", "2Gi").Requests, Limits: old.Limits}},
		"it has ended":           {ended, &old, both("2", "2Gi")},
	} {
		t.Run(name, func(t *testing.T) {
			st := Generate(Input{
				Pod: resizedPod(), Runtime: &cri.PodStatus{Containers: []cri.ContainerStatus{tc.record}}, Now: at(9),
				Actuated: func(*cri.ContainerStatus) (v1.ResourceRequirements, bool) {
					if tc.actuated == nil {
						return v1.ResourceRequirements{}, false
					}
					return *tc.actuated, true
				},
			}).ContainerStatuses[0]
			if !equality.Semantic.DeepEqual(*st.Resources, tc.want) {
				t.Errorf("resources %+v, want %+v", st.Resources, tc.want)
			}
			if want := both("2", "2Gi").Requests; !equality.Semantic.DeepEqual(st.AllocatedResources, want) {
				t.Errorf("allocated %+v, want %+v", st.AllocatedResources, want)
			}
		})
	}
}

func TestAllocationIsToldOfEveryContainerWhileAChangeWaits(t *testing.T) {
	in := Input{Pod: resizedPod(), Runtime: &cri.PodStatus{}, Now: at(9)}
	if st := Generate(in).ContainerStatuses[0]; st.Resources != nil {
		t.Errorf("resources %+v of a container that was never made", st.Resources)
	}
	in.Resize = []v1.PodCondition{{Type: v1.PodResizePending, Status: v1.ConditionTrue}}
	if st := Generate(in).ContainerStatuses[0]; st.Resources == nil || st.AllocatedResources == nil {
		t.Error("a process that starts now could not know what was allocated")
	}
}

func TestConditionsAboutResizesAreShownAsTheyAre(t *testing.T) {
	condition := func(t v1.PodConditionType, second int) v1.PodCondition {
		return v1.PodCondition{
			Type: t, Status: v1.ConditionTrue, Reason: "R", ObservedGeneration: 5,
			LastProbeTime: metav1.NewTime(at(second)), LastTransitionTime: metav1.NewTime(at(second)),
		}
	}
	pod := resizedPod()
	pod.Status.Conditions = []v1.PodCondition{condition(v1.PodResizePending, 1), condition(v1.PodResizeInProgress, 1)}
	in := Input{Pod: pod, Runtime: &cri.PodStatus{}, Now: at(9), Resize: []v1.PodCondition{condition(v1.PodResizeInProgress, 2)}}
	shown := func(st v1.PodStatus) []v1.PodCondition {
		var out []v1.PodCondition
		for _, c := range st.Conditions {
			if isResize(c.Type) {
				out = append(out, c)
			}
		}
		return out
	}
	made := Generate(in)
	if diff := cmp.Diff(in.Resize, shown(made)); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	merged, _ := merge(&pod.Status, &made, false, at(10).Add(time.Second))
	if diff := cmp.Diff(in.Resize, shown(*merged)); diff != "" {
		t.Errorf("conditions sent (-want +got):\n%s", diff)
	}
	pod.Status.Phase = v1.PodFailed
	if got := shown(Generate(in)); len(got) != 0 {
		t.Errorf("a pod that ended has %+v", got)
	}
}

func TestResourcesOfAPodAreToldIfItAsksForSomethingAsAWhole(t *testing.T) {
	list := func(cpu, memory string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
	}
	pod := &v1.Pod{Spec: v1.PodSpec{
		Resources:  &v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")}, Limits: list("4", "4Gi")},
		Containers: []v1.Container{{Name: "a", Resources: v1.ResourceRequirements{Requests: list("1", "1Gi")}}, {Name: "b"}},
	}}
	inEffect := &v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1500m")}, Limits: list("3", "2Gi")}
	for _, tt := range []struct {
		desc  string
		whole *v1.ResourceRequirements
		want  v1.ResourceRequirements
	}{
		{"nothing known", nil, v1.ResourceRequirements{Requests: list("2", "1Gi"), Limits: list("4", "4Gi")}},
		{"less in effect", inEffect, v1.ResourceRequirements{Requests: list("1500m", "1Gi"), Limits: list("3", "2Gi")}},
	} {
		got := Generate(Input{Pod: pod, Whole: tt.whole})
		if got.Resources == nil || !equality.Semantic.DeepEqual(*got.Resources, tt.want) || !equality.Semantic.DeepEqual(got.AllocatedResources, list("2", "1Gi")) {
			t.Errorf("%s: resources %v, allocated %v", tt.desc, got.Resources, got.AllocatedResources)
		}
	}
	pod.Spec.Resources = nil
	if got := Generate(Input{Pod: pod, Whole: &v1.ResourceRequirements{}}); got.Resources != nil || got.AllocatedResources != nil {
		t.Errorf("of a pod that asks for nothing: %v, %v", got.Resources, got.AllocatedResources)
	}
	if inEffect.Requests.Memory().Value() != 0 {
		t.Error("what is in effect was changed")
	}
}
