// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tombolo-dev/tombolo/cri"
)

func TestChangeOfMemoryThatWouldChangeSwapIsNotMade(t *testing.T) {
	pod := func(request, limit string, policy ...v1.ContainerResizePolicy) *v1.Pod {
		c := v1.Container{Name: "c", ResizePolicy: policy, Resources: v1.ResourceRequirements{Requests: v1.ResourceList{}, Limits: v1.ResourceList{}}}
		for list, q := range map[string]string{"request": request, "limit": limit} {
			switch {
			case q == "":
			case list == "request":
				c.Resources.Requests[v1.ResourceMemory] = resource.MustParse(q)
			default:
				c.Resources.Limits[v1.ResourceMemory] = resource.MustParse(q)
			}
		}
		return &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{c}}, Status: v1.PodStatus{QOSClass: v1.PodQOSBurstable}}
	}
	limited := cri.Swap{Bytes: 1 << 30, Control: true, Limited: true}
	restarts := v1.ContainerResizePolicy{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}
	for _, tt := range []struct {
		desc          string
		swap          cri.Swap
		desired, have *v1.Pod
		want          bool
	}{
		{"a share of swap", limited, pod("1Gi", "4Gi"), pod("2Gi", "4Gi"), true},
		{"a share that comes", limited, pod("1Gi", "2Gi"), pod("2Gi", "2Gi"), true},
		{"only the limit", limited, pod("1Gi", "4Gi"), pod("1Gi", "2Gi"), false},
		{"a restart", limited, pod("1Gi", "4Gi", restarts), pod("2Gi", "4Gi", restarts), false},
		{"no swap for anybody", cri.Swap{Bytes: 1 << 30, Control: true}, pod("1Gi", "4Gi"), pod("2Gi", "4Gi"), false},
		{"a machine that cannot limit it", cri.Swap{Bytes: 1 << 30, Limited: true}, pod("1Gi", "4Gi"), pod("2Gi", "4Gi"), false},
	} {
		if got := swapChanges(tt.swap, tt.desired, tt.have); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.desc, got, tt.want)
		}
	}
}

func TestResourcesOfThePodAsAWholeChangeOnlyWithAnotherAmount(t *testing.T) {
	with := func(cpu string) *v1.Pod {
		if cpu == "" {
			return &v1.Pod{}
		}
		return &v1.Pod{Spec: v1.PodSpec{Resources: &v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}}}}
	}
	for _, tt := range []struct {
		want, have string
		changes    bool
	}{{"", "", false}, {"1", "1000m", false}, {"1", "2", true}, {"", "1", true}, {"1", "", true}} {
		if got := podLevelChanges(with(tt.want), with(tt.have)); got != tt.changes {
			t.Errorf("%q instead of %q: %v", tt.want, tt.have, got)
		}
	}
}
