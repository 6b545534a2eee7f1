// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// checkTransition refuses a status in which a container that has ended for good has not ended: it would be a mistake of
// ours. A container that the policies let start again may leave its end, a sidecar always.
func checkTransition(pod *v1.Pod, old, status *v1.PodStatus) error {
	check := func(c *v1.Container, old, status []v1.ContainerStatus) error {
		before, after := find(old, c.Name), find(status, c.Name)
		if before == nil || before.State.Terminated == nil || after == nil || after.State.Terminated != nil {
			return nil
		}
		if podrules.Restartable(pod, c, before.State.Terminated.ExitCode) {
			return nil
		}
		return fmt.Errorf("container %q ended with exit code %d and may not start again, but is said not to have ended",
			c.Name, before.State.Terminated.ExitCode)
	}
	for i := range pod.Spec.InitContainers {
		if err := check(&pod.Spec.InitContainers[i], old.InitContainerStatuses, status.InitContainerStatuses); err != nil {
			return err
		}
	}
	for i := range pod.Spec.Containers {
		if err := check(&pod.Spec.Containers[i], old.ContainerStatuses, status.ContainerStatuses); err != nil {
			return err
		}
	}
	return nil
}
