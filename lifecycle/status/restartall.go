// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// removedToRestart says whether a container that has no record any more was removed by us, because all containers of its
// pod are started anew. Either that goes on, or the last that was said is that it did, or the reason is still known.
func (g *generation) removedToRestart(c *v1.Container, old *v1.ContainerStatus) bool {
	if old == nil || g.in.Runtime == nil || g.endsHere() || podrules.Terminal(g.old.Phase) || !podrules.HasRestartAllRule(g.in.Pod) {
		return false
	}
	if podrules.RestartAllTriggered(g.in.Pod, g.in.Runtime) {
		return true
	}
	if told := condition(g.old.Conditions, v1.AllContainersRestarting); told != nil && told.Status == v1.ConditionTrue {
		return true
	}
	if g.in.WaitingReason == nil {
		return false
	}
	reason, _, ok := g.in.WaitingReason(c.Name)
	return ok && reason == reasonRestartingAll
}

// restarted is the status of a container that was removed by us to be started anew. The instance is counted here, for
// the runtime forgets it. Its end is not told as it was: whatever the exit code, the container starts again.
func (g *generation) restarted(c *v1.Container, old *v1.ContainerStatus) v1.ContainerStatus {
	st := v1.ContainerStatus{
		Name: c.Name, Image: c.Image, RestartCount: old.RestartCount,
		State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{
			Reason: reasonRestartingAll, Message: messageRestartingAll,
		}},
		LastTerminationState: *old.LastTerminationState.DeepCopy(),
	}
	ended := ownEnd(old)
	if old.State.Running == nil && ended == nil {
		return st
	}
	if ended == nil || ended.Reason != reasonStatusUnknown {
		st.RestartCount++
	}
	st.LastTerminationState.Terminated = &v1.ContainerStateTerminated{
		ExitCode: exitCodeUnknown, Reason: reasonRestartingAll, Message: messageRestartingAll,
	}
	return st
}

// allRestarting tells whether all containers of the pod are being removed to be started anew. Only a pod with a rule for
// that has the condition.
func (g *generation) allRestarting(phase v1.PodPhase) v1.PodCondition {
	known := condition(g.old.Conditions, v1.AllContainersRestarting)
	switch {
	case podrules.Terminal(phase):
		return notTrue(v1.AllContainersRestarting, terminalReason(phase), "")
	case g.in.Runtime == nil && known != nil:
		return *known
	case podrules.RestartAllTriggered(g.in.Pod, g.in.Runtime):
		return v1.PodCondition{
			Type: v1.AllContainersRestarting, Status: v1.ConditionTrue, Reason: reasonRestartAllStarted, Message: messageRestartAll,
		}
	default:
		return notTrue(v1.AllContainersRestarting, "", "")
	}
}
