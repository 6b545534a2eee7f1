// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package resize

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// allocation is what the node agreed to give each container of a pod, by name, and the pod as a whole if that asks for something.
type allocation map[string]v1.ResourceRequirements

// wholePod is the name under which an allocation has what the pod asks for by itself. No container has it.
const wholePod = ""

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
	if pod.Spec.Resources != nil {
		out[wholePod] = *pod.Spec.Resources
	}
	return out
}

// effective is what a container gets: what it asks for, and the limits of its pod where it has none, as it is made with.
func effective(pod *v1.Pod, c *v1.Container) v1.ResourceRequirements {
	if !resource.IsPodLevelLimitsSet(pod) {
		return c.Resources
	}
	out := *c.Resources.DeepCopy()
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		own, whole := out.Limits[name], pod.Spec.Resources.Limits[name]
		if !own.IsZero() || whole.IsZero() {
			continue
		}
		if out.Limits == nil {
			out.Limits = v1.ResourceList{}
		}
		out.Limits[name] = whole
	}
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
			limits := st.Resources.Limits
			if resource.IsPodLevelLimitsSet(pod) { // of which those that the container leaves open are the pod's
				limits = only(limits, r.Limits)
			}
			r.Requests, r.Limits = replaced(r.Requests, st.AllocatedResources), replaced(r.Limits, limits)
			out[st.Name] = r
		}
	}
	if r, known := out[wholePod]; known && pod.Status.Resources != nil {
		r.Requests = replaced(r.Requests, only(pod.Status.AllocatedResources, r.Requests))
		r.Limits = replaced(r.Limits, only(pod.Status.Resources.Limits, r.Limits))
		out[wholePod] = r
	}
	return out
}

// only returns a list without what another has not.
func only(list, names v1.ResourceList) v1.ResourceList {
	out := v1.ResourceList{}
	for name, q := range list {
		if _, ok := names[name]; ok {
			out[name] = q
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
	if r := a[wholePod]; out.Spec.Resources != nil && amountsOf(r) != amountsOf(*out.Spec.Resources) {
		out.Spec.Resources.Requests = replaced(out.Spec.Resources.Requests, r.Requests)
		out.Spec.Resources.Limits = replaced(out.Spec.Resources.Limits, r.Limits)
	}
	return out
}

// differs says whether the pod asks for other amounts.
func (a allocation) differs(pod *v1.Pod) bool {
	found := pod.Spec.Resources != nil && amountsOf(a[wholePod]) != amountsOf(*pod.Spec.Resources)
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
