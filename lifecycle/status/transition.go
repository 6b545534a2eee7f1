// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// checkTransition refuses a status in which a container that has ended for good has not ended: it would be a mistake of
// ours. A container that the policies let start again may leave its end, a sidecar always, and one of a pod that may
// restart all its containers whatever its policy.
func checkTransition(pod *v1.Pod, old, status *v1.PodStatus) error {
	if podrules.HasRestartAllRule(pod) && !podrules.Terminal(old.Phase) {
		return nil
	}
	check := func(kind podrules.ContainerKind, c *v1.Container, old, status []v1.ContainerStatus) error {
		before, after := find(old, c.Name), find(status, c.Name)
		if before == nil || before.State.Terminated == nil || after == nil || after.State.Terminated != nil {
			return nil
		}
		if mayStartAgain(pod, kind, c, before.State.Terminated) {
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
