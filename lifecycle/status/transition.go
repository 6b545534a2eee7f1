// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// refuseFor is for how long impossible statuses of a pod are refused: a slip of ours is over by then, and what is still
// said is the truth. A guard that could keep the API wrong for ever would be worse than what it guards against.
const refuseFor = 10 * time.Second

// refuse says whether an impossible status is to be dropped. m.mu is held.
func (m *Manager) refuse(pod *v1.Pod, last, next *v1.PodStatus) bool {
	err := checkTransition(pod, last, next)
	if err == nil {
		delete(m.refused, pod.UID)
		return false
	}
	log := m.log.With("pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID, "error", err)
	since, again := m.refused[pod.UID]
	if again && m.clock.Since(since) >= refuseFor {
		delete(m.refused, pod.UID)
		log.Error("taking an impossible status, for it does not go away")
		return false
	}
	if !again {
		m.refused[pod.UID] = m.clock.Now()
	}
	m.metrics.refused.Inc()
	log.Error("dropping an impossible status")
	return true
}

// checkTransition tells of a status in which a container that has ended for good has not ended: it would be a mistake of
// ours. A container that the policies let start again may leave its end, a sidecar always, and one of a pod that may
// restart all its containers whatever its policy. An end that was guessed binds nobody, and another instance that runs is
// a fact.
func checkTransition(pod *v1.Pod, old, status *v1.PodStatus) error {
	if podrules.HasRestartAllRule(pod) && !podrules.Terminal(old.Phase) {
		return nil
	}
	check := func(kind podrules.ContainerKind, c *v1.Container, old, status []v1.ContainerStatus) error {
		before, after := find(old, c.Name), find(status, c.Name)
		if before == nil || before.State.Terminated == nil || after == nil || after.State.Terminated != nil {
			return nil
		}
		another := after.State.Running != nil && after.ContainerID != before.ContainerID
		if another || isGuess(before.State.Terminated) || mayStartAgain(pod, kind, c, before.State.Terminated) {
			return nil
		}
		return fmt.Errorf("container %q ended with exit code %d and may not start again, but is said not to have ended",
			c.Name, before.State.Terminated.ExitCode)
	}
	for kind, c := range podrules.Containers(pod) {
		var err error
		switch kind {
		case podrules.RegularContainer:
			err = check(kind, c, old.ContainerStatuses, status.ContainerStatuses)
		case podrules.EphemeralContainer:
			err = check(kind, c, old.EphemeralContainerStatuses, status.EphemeralContainerStatuses)
		default:
			err = check(kind, c, old.InitContainerStatuses, status.InitContainerStatuses)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mayStartAgain says whether a container of the kind may start again after an end that was told. An ephemeral one never
// does; an init container that the kernel killed has failed whatever its exit code.
func mayStartAgain(pod *v1.Pod, kind podrules.ContainerKind, c *v1.Container, ended *v1.ContainerStateTerminated) bool {
	record := cri.ContainerStatus{ExitCode: ended.ExitCode, Reason: ended.Reason}
	switch {
	case kind == podrules.EphemeralContainer:
		return false
	case kind == podrules.InitContainer && podrules.InitFailed(&record):
		return podrules.InitRestartable(pod, c, &record)
	default:
		return podrules.Restartable(pod, c, ended.ExitCode)
	}
}
