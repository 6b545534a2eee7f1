// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podrules

import (
	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/cri"
)

// HasRestartAllRule says whether some container of the pod has a restart rule that restarts all of them.
func HasRestartAllRule(pod *v1.Pod) bool {
	for _, c := range Containers(pod) {
		for i := range c.RestartPolicyRules {
			if c.RestartPolicyRules[i].Action == v1.ContainerRestartRuleActionRestartAllContainers {
				return true
			}
		}
	}
	return false
}

// RestartAllTriggered says whether all containers of the pod have to be removed and started anew, because one ended in a
// way for which its rules ask for that. It stays true until the last such record is removed. A pod that is being deleted
// restarts nothing, and one without a ready sandbox begins anew by itself.
func RestartAllTriggered(pod *v1.Pod, status *cri.PodStatus) bool {
	if pod.DeletionTimestamp != nil || !HasRestartAllRule(pod) {
		return false
	}
	for _, c := range Containers(pod) {
		if IsRestartAllSource(status, c) {
			return true
		}
	}
	return false
}

// IsRestartAllSource says whether the container's newest record is what triggers the restart of all containers.
func IsRestartAllSource(status *cri.PodStatus, c *v1.Container) bool {
	sandbox, newest := status.ReadySandbox(), status.Newest(c.Name)
	if sandbox == nil || newest == nil || newest.State != cri.ContainerExited || newest.SandboxID != sandbox.ID {
		return false
	}
	rule := matchedRule(c, newest.ExitCode)
	return rule != nil && rule.Action == v1.ContainerRestartRuleActionRestartAllContainers
}
