// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
)

// CheckResize says whether a pod that runs with what it was allocated may have what it asks for now. The reason is "" if it
// may, v1.PodReasonDeferred if the node has no room for it now, and v1.PodReasonInfeasible if the node is too small. What
// does not grow always fits, also on a node that has become too small for its pods. Facts.ActivePods have what they were
// allocated.
func CheckResize(pod, allocated *v1.Pod, facts Facts) (reason, message string) {
	if facts.Node == nil {
		return "", ""
	}
	grows := v1.ResourceList{}
	want, have := resource.PodRequests(pod, resource.PodResourcesOptions{}), resource.PodRequests(allocated, resource.PodResourcesOptions{})
	for _, name := range []v1.ResourceName{v1.ResourceMemory, v1.ResourceCPU} {
		capacity, declared := facts.Node.Status.Allocatable[name]
		if !declared || amount(name, want) <= amount(name, have) {
			continue
		}
		grows[name] = capacity
		if total := amount(name, grows); amount(name, want) > total {
			return v1.PodReasonInfeasible, fmt.Sprintf("Node didn't have enough capacity: %s, requested: %d, capacity: %d",
				name, amount(name, want), total)
		}
	}
	if r := checkResources(pod, others(pod, facts), grows); r != nil {
		return v1.PodReasonDeferred, r.Message
	}
	return "", ""
}
