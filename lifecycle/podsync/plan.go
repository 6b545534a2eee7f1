// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// willRestart is added to the message of the Killing event of a regular container that is started again.
const willRestart = ", will be restarted"

// plan computes the actions of a pod whose sandbox will do.
type plan struct {
	Input
	actions Actions
	// dying are the ids in actions.ToKill.
	dying map[string]bool
}

func (p *plan) kill(record *cri.ContainerStatus, reason KillReason, message string) {
	if p.dying[record.ID] {
		return
	}
	if p.dying == nil {
		p.dying = map[string]bool{}
	}
	p.dying[record.ID] = true
	p.actions.ToKill = append(p.actions.ToKill, ContainerKill{Container: record, Reason: reason, Message: message})
}

// killStrays kills what runs, or may run, of the pod's containers and is not the newest record of its name in the
// sandbox.
func (p *plan) killStrays() {
	newest := map[string]bool{}
	for i := range p.Status.Containers {
		record := &p.Status.Containers[i]
		current := !newest[record.Name] && record.SandboxID == p.actions.SandboxID
		newest[record.Name] = true
		if !current && record.MayRun() {
			p.kill(record, KillStray, fmt.Sprintf("Container %s runs beside its replacement", record.Name))
		}
	}
}

// regular decides about the regular containers of a pod that has been initialised.
func (p *plan) regular() {
	kept := 0
	for i := range p.Pod.Spec.Containers {
		c := &p.Pod.Spec.Containers[i]
		newest := p.Status.Newest(c.Name)
		switch {
		case newest != nil && newest.State == cri.ContainerRunning:
			if p.keep(i, c, newest) {
				kept++
			}
		case newest != nil && newest.State == cri.ContainerUnknown:
			p.lost(i, c, newest)
		case newest == nil && p.doneBefore(c):
		case podrules.ShouldRestart(p.Pod, c, newest):
			p.actions.ToStart = append(p.actions.ToStart, i)
		}
	}
	p.actions.KillPod = kept == 0 && len(p.actions.ToStart) == 0
}

// doneBefore says whether a regular container of which the runtime has no record ended for good, as the API's status
// knows. In a pod that may restart all its containers that status may be older than their restart.
func (p *plan) doneBefore(c *v1.Container) bool {
	if podrules.HasRestartAllRule(p.Pod) {
		return false
	}
	for i := range p.Pod.Status.ContainerStatuses {
		status := &p.Pod.Status.ContainerStatuses[i]
		if status.Name == c.Name && status.State.Terminated != nil {
			return !podrules.Restartable(p.Pod, c, status.State.Terminated.ExitCode)
		}
	}
	return false
}

// lost decides about the i-th regular container, which may run although the runtime cannot tell. It is killed before
// another takes its place; where the policies know no retry it may have done its work, and none does.
func (p *plan) lost(i int, c *v1.Container, record *cri.ContainerStatus) {
	message := fmt.Sprintf("Container is in %q state, try killing it", record.State)
	if podrules.MayRetry(p.Pod, c) {
		message += " before restart"
		p.actions.ToStart = append(p.actions.ToStart, i)
	}
	p.kill(record, KillUnknown, message)
}

// keep says whether the i-th regular container, which runs, goes on running. If not, it is killed and, where the policies
// let it, started again. Exit codes are not asked, for its own is not that of its program.
func (p *plan) keep(i int, c *v1.Container, record *cri.ContainerStatus) bool {
	if p.dying[record.ID] {
		return true // a stray: its end decides what follows
	}
	reason, what := p.fault(c, record)
	if reason == "" {
		p.hook(c, record)
		return true
	}
	message := fmt.Sprintf("Container %s %s", c.Name, what)
	// A changed definition has not run yet, and resources were changed for the sake of what runs, whatever the policies say.
	if reason == KillDefinitionChanged || reason == KillResize || podrules.MayRetry(p.Pod, c) {
		message += willRestart
		p.actions.ToStart = append(p.actions.ToStart, i)
	}
	p.kill(record, reason, message)
	return false
}

// fault tells why a running container must not go on, and what that is called; "" if there is no reason.
func (p *plan) fault(c *v1.Container, record *cri.ContainerStatus) (reason KillReason, what string) {
	switch {
	case record.Hash != "" && record.Hash != cri.ContainerHash(c):
		return KillDefinitionChanged, "definition changed"
	case p.probe(podrules.LivenessProbe, c.LivenessProbe, record) == podrules.ProbeFailed:
		return KillLivenessFailed, "failed liveness probe"
	case p.probe(podrules.StartupProbe, c.StartupProbe, record) == podrules.ProbeFailed:
		return KillStartupFailed, "failed startup probe"
	case p.resizeRestarts(c, record):
		return KillResize, "resize requires restart"
	default:
		return "", ""
	}
}

func (p *plan) resizeRestarts(c *v1.Container, record *cri.ContainerStatus) bool {
	return p.ResizeRestarts != nil && p.ResizeRestarts(c, record)
}

// probe returns what a probe says of a running container. One that the container does not have is content with it.
func (p *plan) probe(kind podrules.ProbeKind, probe *v1.Probe, record *cri.ContainerStatus) podrules.ProbeResult {
	switch {
	case probe == nil:
		return podrules.ProbeSucceeded
	case p.Probes == nil:
		return podrules.ProbeUnknown
	default:
		return p.Probes.ProbeResult(kind, record.ID)
	}
}

// hook notes that the running container's postStart hook is awaited, and says so.
func (p *plan) hook(c *v1.Container, record *cri.ContainerStatus) bool {
	if postStartOf(c) == nil || p.AwaitsPostStart == nil || !p.AwaitsPostStart(record) {
		return false
	}
	p.actions.ToHook = append(p.actions.ToHook, record)
	return true
}

// ephemeral decides about ephemeral containers: each is started once in its life. The runtime may have forgotten one that
// ran.
func (p *plan) ephemeral() {
	for i := range p.Pod.Spec.EphemeralContainers {
		name := p.Pod.Spec.EphemeralContainers[i].Name
		newest := p.Status.Newest(name)
		created := newest != nil && newest.State == cri.ContainerCreated && newest.SandboxID == p.actions.SandboxID
		if created || newest == nil && !p.ranEphemeral(name) {
			p.actions.EphemeralToStart = append(p.actions.EphemeralToStart, i)
		}
	}
}

// ranEphemeral says whether the ephemeral container was started, as this process or the API's status knows.
func (p *plan) ranEphemeral(name string) bool {
	if p.StartedBefore != nil && p.StartedBefore(name) {
		return true
	}
	for i := range p.Pod.Status.EphemeralContainerStatuses {
		status := &p.Pod.Status.EphemeralContainerStatuses[i]
		if status.Name != name {
			continue
		}
		return status.State.Running != nil || status.State.Terminated != nil || status.LastTerminationState.Terminated != nil
	}
	return false
}

// inSandbox returns the newest record of the container in the pod's sandbox.
func (p *plan) inSandbox(name string) *cri.ContainerStatus {
	for i := range p.Status.Containers {
		record := &p.Status.Containers[i]
		if record.Name == name && record.SandboxID == p.actions.SandboxID {
			return record
		}
	}
	return nil
}
