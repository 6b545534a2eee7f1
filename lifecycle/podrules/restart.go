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
	if asksForRestart(matchedRule(container, exitCode)) {
		return true
	}
	if container.RestartPolicy != nil {
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

// MayRetry says whether a container that was killed or got lost, so that its exit code means nothing, may start again:
// its own policy, else the pod's, is not Never.
func MayRetry(pod *v1.Pod, container *v1.Container) bool {
	if container.RestartPolicy != nil {
		return *container.RestartPolicy != v1.ContainerRestartPolicyNever
	}
	return pod.Spec.RestartPolicy != v1.RestartPolicyNever
}

// InitRestartable says whether a regular init container that failed (InitFailed) may start again: its rules are asked
// for its exit code, then the policies.
func InitRestartable(pod *v1.Pod, container *v1.Container, record *cri.ContainerStatus) bool {
	return asksForRestart(matchedRule(container, record.ExitCode)) || MayRetry(pod, container)
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

// matchedRule returns the first of the container's restart rules that matches the exit code, nil if there is none. Rules
// of a container without a restart policy of its own are not asked.
func matchedRule(c *v1.Container, exitCode int32) *v1.ContainerRestartRule {
	if c.RestartPolicy == nil {
		return nil
	}
	for i := range c.RestartPolicyRules {
		codes := c.RestartPolicyRules[i].ExitCodes
		if codes == nil {
			continue
		}
		listed := slices.Contains(codes.Values, exitCode)
		if (codes.Operator == v1.ContainerRestartRuleOnExitCodesOpIn && listed) ||
			(codes.Operator == v1.ContainerRestartRuleOnExitCodesOpNotIn && !listed) {
			return &c.RestartPolicyRules[i]
		}
	}
	return nil
}

// asksForRestart says whether the rule, which may be nil, is one of the known actions: both restart the container.
func asksForRestart(rule *v1.ContainerRestartRule) bool {
	return rule != nil && (rule.Action == v1.ContainerRestartRuleActionRestart ||
		rule.Action == v1.ContainerRestartRuleActionRestartAllContainers)
}
