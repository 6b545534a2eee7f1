// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// isOwned says whether a condition is ours alone to write.
func isOwned(t v1.PodConditionType) bool {
	switch t {
	case v1.PodScheduled, v1.PodReadyToStartContainers, v1.PodInitialized, v1.ContainersReady, v1.PodReady,
		v1.PodResizePending, v1.PodResizeInProgress, v1.AllContainersRestarting:
		return true
	default:
		return false
	}
}

// isOurs says whether a condition is among those that we write.
func isOurs(t v1.PodConditionType) bool {
	return isOwned(t) || isShared(t)
}

// isResize says whether a condition is about changes of the pod's resources.
func isResize(t v1.PodConditionType) bool {
	return t == v1.PodResizePending || t == v1.PodResizeInProgress
}

// isShared says whether a condition is written by us and by others.
func isShared(t v1.PodConditionType) bool {
	return t == v1.DisruptionTarget
}

// conditions are those of others as the API has them, then ours.
func (g *generation) conditions(status *v1.PodStatus) []v1.PodCondition {
	var list []v1.PodCondition
	for i := range g.in.Pod.Status.Conditions {
		if c := &g.in.Pod.Status.Conditions[i]; !isOurs(c.Type) {
			list = append(list, *c)
		}
	}
	for _, known := range []*v1.PodStatus{g.old, &g.in.Pod.Status} {
		if c := condition(known.Conditions, v1.DisruptionTarget); c != nil {
			list = append(list, *c)
			break
		}
	}
	containersReady := g.containersReady(status)
	ours := []v1.PodCondition{
		g.readyToStart(),
		g.initialized(status),
		g.ready(containersReady, list),
		containersReady,
		{Type: v1.PodScheduled, Status: v1.ConditionTrue},
	}
	if podrules.HasRestartAllRule(g.in.Pod) {
		ours = append(ours, g.allRestarting(status.Phase))
	}
	for _, c := range ours {
		c.ObservedGeneration = g.in.Pod.Generation
		list = append(list, c)
	}
	if !podrules.Terminal(status.Phase) {
		list = append(list, g.in.Resize...)
	}
	keepTransitionTimes(list, g.old.Conditions, g.in.Now)
	return list
}

// readyToStart tells whether the pod has a sandbox to start containers in. Nobody knows before the first observation.
func (g *generation) readyToStart() v1.PodCondition {
	if known := condition(g.old.Conditions, v1.PodReadyToStartContainers); known != nil && g.in.Runtime == nil {
		return *known
	}
	need := podrules.SandboxNeedOf(g.in.Pod, g.in.Runtime)
	if need.New {
		return notTrue(v1.PodReadyToStartContainers, reasonSandboxNotReady, need.Message)
	}
	return isTrue(v1.PodReadyToStartContainers)
}

// initialized tells whether the pod is past its init containers. It is once a regular container has started, and stays
// so when a new sandbox makes them run again.
func (g *generation) initialized(status *v1.PodStatus) v1.PodCondition {
	if status.Phase == v1.PodSucceeded {
		return v1.PodCondition{Type: v1.PodInitialized, Status: v1.ConditionTrue, Reason: reasonPodCompleted}
	}
	for i := range status.ContainerStatuses {
		if state := &status.ContainerStatuses[i].State; state.Running != nil || state.Terminated != nil {
			return isTrue(v1.PodInitialized)
		}
	}
	var unknown, incomplete []string
	for i := range g.in.Pod.Spec.InitContainers {
		c := &g.in.Pod.Spec.InitContainers[i]
		st := find(status.InitContainerStatuses, c.Name)
		switch {
		case st == nil:
			unknown = append(unknown, c.Name)
		case podrules.IsSidecar(c) && (st.Started == nil || !*st.Started), !podrules.IsSidecar(c) && !st.Ready:
			incomplete = append(incomplete, c.Name)
		}
	}
	if c := condition(g.old.Conditions, v1.PodInitialized); c != nil && c.Status == v1.ConditionTrue {
		return isTrue(v1.PodInitialized)
	}
	if message := namesMessage(unknown, incomplete, "incomplete"); message != "" {
		return notTrue(v1.PodInitialized, reasonNotInitialized, message)
	}
	return isTrue(v1.PodInitialized)
}

// containersReady tells whether every sidecar and regular container is ready.
func (g *generation) containersReady(status *v1.PodStatus) v1.PodCondition {
	if podrules.Terminal(status.Phase) {
		return notTrue(v1.ContainersReady, terminalReason(status.Phase), "")
	}
	if status.ContainerStatuses == nil {
		return notTrue(v1.ContainersReady, reasonUnknownContainers, "")
	}
	var unknown, unready []string
	look := func(c *v1.Container, statuses []v1.ContainerStatus) {
		switch st := find(statuses, c.Name); {
		case st == nil:
			unknown = append(unknown, c.Name)
		case !st.Ready:
			unready = append(unready, c.Name)
		}
	}
	for i := range g.in.Pod.Spec.InitContainers {
		if c := &g.in.Pod.Spec.InitContainers[i]; podrules.IsSidecar(c) {
			look(c, status.InitContainerStatuses)
		}
	}
	for i := range g.in.Pod.Spec.Containers {
		look(&g.in.Pod.Spec.Containers[i], status.ContainerStatuses)
	}
	if message := namesMessage(unknown, unready, "unready"); message != "" {
		return notTrue(v1.ContainersReady, reasonNotReady, message)
	}
	return isTrue(v1.ContainersReady)
}

// ready is ContainersReady and every readiness gate, whose conditions others write.
func (g *generation) ready(containersReady v1.PodCondition, others []v1.PodCondition) v1.PodCondition {
	if containersReady.Status != v1.ConditionTrue {
		return notTrue(v1.PodReady, containersReady.Reason, containersReady.Message)
	}
	var messages []string
	for _, gate := range g.in.Pod.Spec.ReadinessGates {
		switch c := condition(others, gate.ConditionType); {
		case c == nil:
			messages = append(messages, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		case c.Status != v1.ConditionTrue:
			messages = append(messages, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", gate.ConditionType, c.Status))
		}
	}
	if len(messages) > 0 {
		return notTrue(v1.PodReady, reasonGatesNotReady, strings.Join(messages, ", "))
	}
	return isTrue(v1.PodReady)
}

// ReadyIsStale says whether the Ready condition in the API does not say what follows from the conditions there of the
// pod's containers and of its readiness gates, which others write.
func ReadyIsStale(pod *v1.Pod) bool {
	containers := condition(pod.Status.Conditions, v1.ContainersReady)
	if containers == nil || len(pod.Spec.ReadinessGates) == 0 {
		return false
	}
	g := generation{in: Input{Pod: pod}, old: &pod.Status}
	want := g.ready(*containers, pod.Status.Conditions)
	return !sameCondition(&want, condition(pod.Status.Conditions, v1.PodReady))
}

// WithSandbox returns the status with the news that the pod has a sandbox to start containers in. It is told before the
// images of the containers are pulled, which may take long.
func WithSandbox(pod *v1.Pod, last v1.PodStatus, now time.Time) v1.PodStatus {
	status := *last.DeepCopy()
	c := isTrue(v1.PodReadyToStartContainers)
	c.ObservedGeneration = pod.Generation
	status.Conditions = replaceCondition(status.Conditions, c)
	keepTransitionTimes(status.Conditions, last.Conditions, now)
	return status
}

// keepTransitionTimes gives each of our conditions the time at which its status last changed: that of the old condition
// if it says the same, else now, unless the new one brings a time of its own, as those about resizes do.
func keepTransitionTimes(list, old []v1.PodCondition, now time.Time) {
	for i := range list {
		c := &list[i]
		if !isOurs(c.Type) || isResize(c.Type) {
			continue
		}
		before := condition(old, c.Type)
		switch {
		case before != nil && before.Status == c.Status && !before.LastTransitionTime.IsZero():
			c.LastTransitionTime = before.LastTransitionTime
		case c.LastTransitionTime.IsZero(), before != nil && before.LastTransitionTime.Equal(&c.LastTransitionTime):
			c.LastTransitionTime = metav1.NewTime(now)
		}
	}
}

func namesMessage(unknown, lacking []string, what string) string {
	var parts []string
	if len(unknown) > 0 {
		parts = append(parts, fmt.Sprintf("containers with unknown status: %s", unknown))
	}
	if len(lacking) > 0 {
		parts = append(parts, fmt.Sprintf("containers with %s status: %s", what, lacking))
	}
	return strings.Join(parts, ", ")
}

func isTrue(t v1.PodConditionType) v1.PodCondition {
	return v1.PodCondition{Type: t, Status: v1.ConditionTrue}
}

func notTrue(t v1.PodConditionType, reason, message string) v1.PodCondition {
	return v1.PodCondition{Type: t, Status: v1.ConditionFalse, Reason: reason, Message: message}
}

func terminalReason(p v1.PodPhase) string {
	if p == v1.PodFailed {
		return reasonPodFailed
	}
	return reasonPodCompleted
}

// condition returns the condition of a type, nil if there is none. It is not copied.
func condition(list []v1.PodCondition, t v1.PodConditionType) *v1.PodCondition {
	for i := range list {
		if list[i].Type == t {
			return &list[i]
		}
	}
	return nil
}
