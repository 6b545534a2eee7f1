// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// normalize brings a status to the form in which it comes back from the API, which keeps seconds, and in which it can
// be accepted: messages are valid text of bounded length. Container statuses are put in order.
func normalize(pod *v1.Pod, status *v1.PodStatus) {
	containers := len(pod.Spec.InitContainers) + len(pod.Spec.Containers) + len(pod.Spec.EphemeralContainers)
	messageLimit := maxMessagesPod / max(containers, 1)

	if status.StartTime != nil {
		truncate(status.StartTime)
	}
	for i := range status.Conditions {
		truncate(&status.Conditions[i].LastProbeTime)
		truncate(&status.Conditions[i].LastTransitionTime)
	}
	for _, list := range [][]v1.ContainerStatus{
		status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses,
	} {
		for i := range list {
			normalizeState(&list[i].State, messageLimit)
			normalizeState(&list[i].LastTerminationState, messageLimit)
		}
	}
	sortByName(status.ContainerStatuses)
	sortByName(status.EphemeralContainerStatuses)
	position := func(st v1.ContainerStatus) int {
		return slices.IndexFunc(pod.Spec.InitContainers, func(c v1.Container) bool { return c.Name == st.Name })
	}
	slices.SortStableFunc(status.InitContainerStatuses, func(a, b v1.ContainerStatus) int {
		return cmp.Compare(position(a), position(b))
	})
}

func normalizeState(state *v1.ContainerState, messageLimit int) {
	if state.Running != nil {
		truncate(&state.Running.StartedAt)
	}
	if t := state.Terminated; t != nil {
		truncate(&t.StartedAt)
		truncate(&t.FinishedAt)
		t.Message = validMessage(t.Message, messageLimit)
	}
	if w := state.Waiting; w != nil {
		w.Message = validMessage(w.Message, maxMessagesPod)
	}
}

func truncate(t *metav1.Time) {
	*t = t.Rfc3339Copy()
}

// equal says whether two normalised statuses say the same in the parts that are ours. When a condition last changed is
// not looked at, nor is anything that others write.
func equal(a, b *v1.PodStatus) bool {
	for _, c := range a.Conditions {
		if other := condition(b.Conditions, c.Type); isOurs(c.Type) && !sameCondition(&c, other) {
			return false
		}
	}
	for _, c := range b.Conditions {
		if isOurs(c.Type) && condition(a.Conditions, c.Type) == nil {
			return false
		}
	}
	left, right := owned(a), owned(b)
	return equality.Semantic.DeepEqual(&left, &right)
}

func sameCondition(a, b *v1.PodCondition) bool {
	return a != nil && b != nil && a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}

// owned returns the fields of a status that are ours to write, except for conditions. They are shared with it.
func owned(s *v1.PodStatus) v1.PodStatus {
	return v1.PodStatus{
		ObservedGeneration:         s.ObservedGeneration,
		Phase:                      s.Phase,
		Reason:                     s.Reason,
		Message:                    s.Message,
		HostIP:                     s.HostIP,
		HostIPs:                    s.HostIPs,
		PodIP:                      s.PodIP,
		PodIPs:                     s.PodIPs,
		StartTime:                  s.StartTime,
		QOSClass:                   s.QOSClass,
		AllocatedResources:         s.AllocatedResources,
		Resources:                  s.Resources,
		InitContainerStatuses:      s.InitContainerStatuses,
		ContainerStatuses:          s.ContainerStatuses,
		EphemeralContainerStatuses: s.EphemeralContainerStatuses,
	}
}

// setOwned overwrites the fields of a status that are ours to write, except for conditions.
func setOwned(s *v1.PodStatus, ours v1.PodStatus) {
	s.ObservedGeneration = ours.ObservedGeneration
	s.Phase, s.Reason, s.Message = ours.Phase, ours.Reason, ours.Message
	s.HostIP, s.HostIPs = ours.HostIP, ours.HostIPs
	s.PodIP, s.PodIPs = ours.PodIP, ours.PodIPs
	s.StartTime, s.QOSClass = ours.StartTime, ours.QOSClass
	s.AllocatedResources, s.Resources = ours.AllocatedResources, ours.Resources
	s.InitContainerStatuses = ours.InitContainerStatuses
	s.ContainerStatuses = ours.ContainerStatuses
	s.EphemeralContainerStatuses = ours.EphemeralContainerStatuses
}
