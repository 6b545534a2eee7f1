// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podrules

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
)

// QOSClass returns the quality of service class of a pod: the one in its status, which the API server sets at creation
// and which never changes, else the one that follows from its resources.
func QOSClass(pod *v1.Pod) v1.PodQOSClass {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	if resource.IsPodLevelResourcesSet(pod) {
		return requirementsClass(pod.Spec.Resources)
	}
	var class v1.PodQOSClass
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			class = joinClasses(class, requirementsClass(&containers[i].Resources))
		}
	}
	return joinClasses(class, "")
}

// requirementsClass is the class of one set of requirements: CPU and memory count, other resources do not.
func requirementsClass(r *v1.ResourceRequirements) v1.PodQOSClass {
	var class v1.PodQOSClass
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		request, limit := r.Requests[name], r.Limits[name]
		switch {
		case !request.Equal(limit):
			return v1.PodQOSBurstable
		case request.IsZero():
			class = joinClasses(class, v1.PodQOSBestEffort)
		default:
			class = joinClasses(class, v1.PodQOSGuaranteed)
		}
	}
	return class
}

// joinClasses returns the class of parts of two classes: different ones make Burstable. "" is the class of nothing;
// nothing at all is BestEffort.
func joinClasses(a, b v1.PodQOSClass) v1.PodQOSClass {
	switch {
	case a == "" && b == "":
		return v1.PodQOSBestEffort
	case a == "" || a == b:
		return b
	case b == "":
		return a
	default:
		return v1.PodQOSBurstable
	}
}
