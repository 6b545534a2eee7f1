// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package resize

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// allocation is what the node agreed to give each container of a pod, by name.
type allocation map[string]v1.ResourceRequirements

// containers calls visit for every container that can be resized: all but the ephemeral ones.
func containers(pod *v1.Pod, visit func(*v1.Container)) {
	for kind, c := range podrules.Containers(pod) {
		if kind != podrules.EphemeralContainer {
			visit(c)
		}
	}
}

func allocationOf(pod *v1.Pod) allocation {
	out := allocation{}
	containers(pod, func(c *v1.Container) { out[c.Name] = c.Resources })
	return out
}

// recovered is what an earlier process allocated. That is what the spec asks for if that process saw this generation of it
// and did not say that it waits.
func recovered(pod *v1.Pod) allocation {
	out := allocationOf(pod)
	if conditionOf(pod, v1.PodResizePending) == nil && pod.Status.ObservedGeneration >= pod.Generation {
		return out
	}
	for _, statuses := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			st := &statuses[i]
			r, known := out[st.Name]
			if !known || st.Resources == nil {
				continue
			}
			r.Requests, r.Limits = replaced(r.Requests, st.AllocatedResources), replaced(r.Limits, st.Resources.Limits)
			out[st.Name] = r
		}
	}
	return out
}

// replaced returns a list with its CPU and memory taken from another.
func replaced(list, from v1.ResourceList) v1.ResourceList {
	out := list.DeepCopy()
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		q, ok := from[name]
		switch {
		case ok && out == nil:
			out = v1.ResourceList{name: q}
		case ok:
			out[name] = q
		default:
			delete(out, name)
		}
	}
	return out
}

// apply returns the pod with the allocated CPU and memory in its spec: the pod itself if they are what it asks for, else
// a copy.
func (a allocation) apply(pod *v1.Pod) *v1.Pod {
	if !a.differs(pod) {
		return pod
	}
	out := pod.DeepCopy()
	containers(out, func(c *v1.Container) {
		if r, ok := a[c.Name]; ok && amountsOf(r) != amountsOf(c.Resources) {
			c.Resources.Requests = replaced(c.Resources.Requests, r.Requests)
			c.Resources.Limits = replaced(c.Resources.Limits, r.Limits)
		}
	})
	return out
}

// differs says whether the pod asks for other amounts.
func (a allocation) differs(pod *v1.Pod) bool {
	found := false
	containers(pod, func(c *v1.Container) {
		if r, ok := a[c.Name]; ok && amountsOf(r) != amountsOf(c.Resources) {
			found = true
		}
	})
	return found
}

// increases says whether the pod as desired requests more of CPU or memory than as allocated.
func increases(desired, allocated *v1.Pod) bool {
	want, have := resource.PodRequests(desired, resource.PodResourcesOptions{}), resource.PodRequests(allocated, resource.PodResourcesOptions{})
	return want.Cpu().Cmp(*have.Cpu()) > 0 || want.Memory().Cmp(*have.Memory()) > 0
}
