// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podrules

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/cri"
)

// reasonOOMKilled is the runtime's reason for a container that the kernel killed for want of memory.
const reasonOOMKilled = "OOMKilled"

// IsSidecar says whether an init container is restartable: it runs beside the regular containers until they are done.
func IsSidecar(initContainer *v1.Container) bool {
	return initContainer.RestartPolicy != nil && *initContainer.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// Restartable says whether the pod's policies let the container start again after it ended with the exit code. The
// container's own rules are asked first, then its own policy, then the pod's.
func Restartable(pod *v1.Pod, container *v1.Container, exitCode int32) bool {
	if container.RestartPolicy != nil {
		if matchesRestartRule(container.RestartPolicyRules, exitCode) {
			return true
		}
		switch *container.RestartPolicy {
		case v1.ContainerRestartPolicyAlways:
			return true
		case v1.ContainerRestartPolicyOnFailure:
			return exitCode != 0
		case v1.ContainerRestartPolicyNever:
			return false
		}
	}
	switch pod.Spec.RestartPolicy {
	case v1.RestartPolicyNever:
		return false
	case v1.RestartPolicyOnFailure:
		return exitCode != 0
	default:
		return true
	}
}

// ShouldRestart says whether the container must be started in the next sync, given its newest record (nil if it has
// none). A pod that is being deleted starts nothing.
func ShouldRestart(pod *v1.Pod, container *v1.Container, newest *cri.ContainerStatus) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	if newest == nil {
		return true
	}
	switch newest.State {
	case cri.ContainerRunning:
		return false
	case cri.ContainerExited:
		return Restartable(pod, container, newest.ExitCode)
	default:
		return true
	}
}

// InitFailed says whether an ended regular init container failed. One that the kernel killed for want of memory failed
// whatever its exit code.
func InitFailed(record *cri.ContainerStatus) bool {
	return record.ExitCode != 0 || record.Reason == reasonOOMKilled
}

// matchesRestartRule says whether the first rule that matches the exit code asks for a restart. Both known actions do.
func matchesRestartRule(rules []v1.ContainerRestartRule, exitCode int32) bool {
	for i := range rules {
		codes := rules[i].ExitCodes
		if codes == nil {
			continue
		}
		listed := slices.Contains(codes.Values, exitCode)
		if (codes.Operator == v1.ContainerRestartRuleOnExitCodesOpIn && listed) ||
			(codes.Operator == v1.ContainerRestartRuleOnExitCodesOpNotIn && !listed) {
			action := rules[i].Action
			return action == v1.ContainerRestartRuleActionRestart || action == v1.ContainerRestartRuleActionRestartAllContainers
		}
	}
	return false
}
