// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podrules

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestQOSClass(t *testing.T) {
	list := func(cpu, memory string) v1.ResourceList {
		l := v1.ResourceList{}
		if cpu != "" {
			l[v1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			l[v1.ResourceMemory] = resource.MustParse(memory)
		}
		return l
	}
	none := v1.ResourceRequirements{}
	fixed := v1.ResourceRequirements{Requests: list("1", "1Gi"), Limits: list("1000m", "1Gi")}
	for _, tt := range []struct {
		desc       string
		set        v1.PodQOSClass
		pod        *v1.ResourceRequirements
		init       []v1.ResourceRequirements
		containers []v1.ResourceRequirements
		want       v1.PodQOSClass
	}{
		{desc: "the API's is kept", set: v1.PodQOSGuaranteed, containers: []v1.ResourceRequirements{none}, want: v1.PodQOSGuaranteed},
		{desc: "no containers", want: v1.PodQOSBestEffort},
		{desc: "nothing asked for", containers: []v1.ResourceRequirements{none, none}, want: v1.PodQOSBestEffort},
		{desc: "zero is nothing", containers: []v1.ResourceRequirements{{Requests: list("0", "0")}}, want: v1.PodQOSBestEffort},
		{desc: "other resources do not count", containers: []v1.ResourceRequirements{{Requests: v1.ResourceList{"x/gpu": resource.MustParse("1")}}}, want: v1.PodQOSBestEffort},
		{desc: "all fixed", init: []v1.ResourceRequirements{fixed}, containers: []v1.ResourceRequirements{fixed}, want: v1.PodQOSGuaranteed},
		{desc: "only a request", containers: []v1.ResourceRequirements{{Requests: list("1", "")}}, want: v1.PodQOSBurstable},
		{desc: "only CPU is fixed", containers: []v1.ResourceRequirements{{Requests: list("1", ""), Limits: list("1", "")}}, want: v1.PodQOSBurstable},
		{desc: "one of two is fixed", containers: []v1.ResourceRequirements{fixed, none}, want: v1.PodQOSBurstable},
		{desc: "an init container counts", init: []v1.ResourceRequirements{none}, containers: []v1.ResourceRequirements{fixed}, want: v1.PodQOSBurstable},
		{desc: "the pod's own resources come before the containers'", pod: &fixed, containers: []v1.ResourceRequirements{none}, want: v1.PodQOSGuaranteed},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			pod := &v1.Pod{Spec: v1.PodSpec{Resources: tt.pod}, Status: v1.PodStatus{QOSClass: tt.set}}
			for _, r := range tt.init {
				pod.Spec.InitContainers = append(pod.Spec.InitContainers, v1.Container{Resources: r})
			}
			for _, r := range tt.containers {
				pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Resources: r})
			}
			if got := QOSClass(pod); got != tt.want {
				t.Errorf("QOSClass() = %s, want %s", got, tt.want)
			}
		})
	}
}
