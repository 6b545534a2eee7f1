// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// final turns the last status of a pod into the one that stays: the phase is terminal, and every container that may
// have run has ended. Where nobody saw how, that is said.
func final(pod *v1.Pod, last *v1.PodStatus, now time.Time) v1.PodStatus {
	status := *last.DeepCopy()
	if wasInitialized(pod, &status) {
		closeAll(status.ContainerStatuses)
	}
	closeAll(status.InitContainerStatuses[:startedInit(status.InitContainerStatuses)])
	if !podrules.Terminal(status.Phase) {
		status.Phase = v1.PodFailed
	}
	notReady(status.Conditions, status.Phase)
	keepTransitionTimes(status.Conditions, last.Conditions, now)
	return status
}

// EndIsTold says whether the API shows that a pod has ended. While its phase is withheld, a condition does.
func EndIsTold(pod *v1.Pod) bool {
	if podrules.Terminal(pod.Status.Phase) {
		return true
	}
	c := condition(pod.Status.Conditions, v1.ContainersReady)
	return c != nil && (c.Reason == reasonPodFailed || c.Reason == reasonPodCompleted)
}

// closeAll gives every container an end: the one that is known of its newest instance, else a guess.
func closeAll(statuses []v1.ContainerStatus) {
	for i := range statuses {
		st := &statuses[i]
		settle(st)
		if st.State.Terminated != nil {
			continue
		}
		st.State = v1.ContainerState{Terminated: guess(messageNotFoundTerminated, st.ContainerID)}
		stopped := false
		st.Ready = false
		if st.Started != nil {
			st.Started = &stopped
		}
	}
}

// wasInitialized says whether there is any sign that the pod got past its init containers.
func wasInitialized(pod *v1.Pod, status *v1.PodStatus) bool {
	if len(pod.Spec.InitContainers) == 0 {
		return true
	}
	for i := range status.ContainerStatuses {
		if st := &status.ContainerStatuses[i]; st.State.Waiting == nil || st.LastTerminationState.Terminated != nil {
			return true
		}
	}
	c := &pod.Spec.InitContainers[len(pod.Spec.InitContainers)-1]
	st := find(status.InitContainerStatuses, c.Name)
	if st == nil {
		return false
	}
	if podrules.IsSidecar(c) {
		return st.State.Running != nil && st.Started != nil && *st.Started
	}
	return succeeded(st.State.Terminated) || succeeded(st.LastTerminationState.Terminated)
}

func succeeded(t *v1.ContainerStateTerminated) bool {
	return t != nil && t.ExitCode == 0
}

// startedInit returns how many init containers ever began, at least the first.
func startedInit(statuses []v1.ContainerStatus) int {
	for i := len(statuses) - 1; i > 0; i-- {
		if statuses[i].State.Waiting == nil || statuses[i].LastTerminationState.Terminated != nil {
			return i + 1
		}
	}
	return min(1, len(statuses))
}
