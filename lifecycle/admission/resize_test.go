// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func requests(cpu, memory string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
}

func asking(uid types.UID, cpu, memory string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: uid},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: requests(cpu, memory)}}}},
	}
}

func TestCheckResize(t *testing.T) {
	for name, tc := range map[string]struct {
		have, want *v1.Pod
		capacity   v1.ResourceList
		reason     string
		message    string
	}{
		"fits":     {asking("a", "1", "1Gi"), asking("a", "2", "2Gi"), requests("3", "3Gi"), "", ""},
		"no room":  {asking("a", "1", "1Gi"), asking("a", "2500m", "1Gi"), requests("3", "3Gi"), v1.PodReasonDeferred, "Node didn't have enough resource: cpu, requested: 2500, used: 1000, capacity: 3000"},
		"too much": {asking("a", "1", "1Gi"), asking("a", "4", "1Gi"), requests("3", "3Gi"), v1.PodReasonInfeasible, "Node didn't have enough capacity: cpu, requested: 4000, capacity: 3000"},
		"too much of both": {
			asking("a", "1", "1"), asking("a", "4", "20"), requests("3", "10"), v1.PodReasonInfeasible,
			"Node didn't have enough capacity: memory, requested: 20, capacity: 10",
		},
		"shrinks on a node that is too small":              {asking("a", "3", "1Gi"), asking("a", "2", "1Gi"), requests("1", "1Gi"), "", ""},
		"shrinks in one resource and has no room in other": {asking("a", "3", "1"), asking("a", "2", "10"), requests("1", "10"), v1.PodReasonDeferred, "Node didn't have enough resource: memory, requested: 10, used: 1, capacity: 10"},
		"nobody knows the node's capacity":                 {asking("a", "1", "1Gi"), asking("a", "4", "1Gi"), nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			facts := Facts{
				Node:       &v1.Node{Status: v1.NodeStatus{Allocatable: tc.capacity}},
				ActivePods: []*v1.Pod{tc.have, asking("b", "1", "1")},
			}
			if reason, message := CheckResize(tc.want, tc.have, facts); reason != tc.reason || message != tc.message {
				t.Errorf("%q %q, want %q %q", reason, message, tc.reason, tc.message)
			}
		})
	}
}
