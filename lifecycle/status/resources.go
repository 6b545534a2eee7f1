// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/tombolo-dev/tombolo/cri"
)

// setResources tells what a container was allocated and, while it runs, what is in effect. While a change waits it is told of
// every container, for the spec does not tell it then and the next process of the node has to learn it from somewhere.
func (g *generation) setResources(c *v1.Container, record *cri.ContainerStatus, st *v1.ContainerStatus) {
	st.AllocatedResources = maps.Clone(c.Resources.Requests)
	st.Resources = c.Resources.DeepCopy()
	if record == nil || record.State != cri.ContainerRunning {
		return
	}
	told := c.Resources
	if g.in.Actuated != nil {
		if actuated, ok := g.in.Actuated(record); ok {
			told = withActuated(c.Resources, actuated)
		}
	}
	inEffect := record.Resources.In(told)
	st.Resources = &inEffect
}

// setPodResources tells what the pod was allocated and what is in effect, if it asks for resources as a whole: an API server that
// knows nothing of these would drop the answer, too, and it would be written again and again.
func (g *generation) setPodResources(status *v1.PodStatus) {
	pod := g.in.Pod
	if !resourcehelper.IsPodLevelResourcesSet(pod) {
		return
	}
	status.AllocatedResources = resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	inEffect := *pod.Spec.Resources.DeepCopy()
	if g.in.Whole != nil {
		inEffect = withActuated(*pod.Spec.Resources, *g.in.Whole)
	}
	view := *pod
	view.Spec.Resources = &inEffect
	inEffect.Requests = resourcehelper.PodRequests(&view, resourcehelper.PodResourcesOptions{})
	status.Resources = &inEffect
}

// withActuated returns what a container was allocated, with CPU and memory as the runtime was told of them.
func withActuated(allocated, actuated v1.ResourceRequirements) v1.ResourceRequirements {
	out := *allocated.DeepCopy()
	out.Requests, out.Limits = replaced(out.Requests, actuated.Requests), replaced(out.Limits, actuated.Limits)
	return out
}

// replaced sets CPU and memory in a list to those in another, without a change where they are equal in other words.
func replaced(list, from v1.ResourceList) v1.ResourceList {
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		was, had := list[name]
		switch q, ok := from[name]; {
		case !ok:
			delete(list, name)
		case had && was.Cmp(q) == 0:
		case list == nil:
			list = v1.ResourceList{name: q}
		default:
			list[name] = q
		}
	}
	return list
}
