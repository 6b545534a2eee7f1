// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// Input is what a status is made from. Nothing in it is changed or kept.
type Input struct {
	// Pod is the newest version from the API, with the status that the API holds and the resources that it was allocated.
	Pod *v1.Pod
	// Runtime is one complete observation of the pod. Nil means that there was none: what was known of the containers
	// is then kept.
	Runtime *cri.PodStatus
	// Cached is the status generated last, nil after a restart of this process. It comes before Pod.Status.
	Cached *v1.PodStatus
	// WaitingReason tells why the last attempt to start a container failed or has to wait. Nil knows no reason.
	WaitingReason func(container string) (reason, message string, ok bool)
	// TerminationMessage returns what an ended container left in its message file, or in its log if it asked for that;
	// any bytes will do. It is put behind the runtime's own message. "" means nothing or not known any more: what was told
	// before then stays. Nil knows none.
	TerminationMessage func(*cri.ContainerStatus) string
	// Probes tells what the probes say of containers. A result that is unknown leaves what was said of the same container
	// before, so that a restart of this process makes nothing unready. Nil knows none.
	Probes podrules.ProbeResults
	// Starting says of a running container that its postStart hook is not known to have ended well: it is shown as one that
	// still waits. Nil means that none has to.
	Starting func(*cri.ContainerStatus) bool
	// Resize are the pod's conditions about changes of its resources, complete: those that are not among them are gone.
	Resize []v1.PodCondition
	// Actuated returns the resources that the runtime was last told of a container that runs; ok is false if nothing is
	// known. Nil knows none.
	Actuated func(*cri.ContainerStatus) (r v1.ResourceRequirements, ok bool)
	// Failure, if it is set, is why the node itself ends the pod.
	Failure *Failure
	// Whole are the resources that the pod as a whole has of what it asks for by itself; nil if that is not known.
	Whole *v1.ResourceRequirements
	// Terminal says that the pod was stopped for good: nothing of it runs or will run.
	Terminal bool
	// HostIPs are the node's addresses, primary first, at most one of each family.
	HostIPs []string
	// Now becomes the time of conditions that change, and the start time of a pod that has none.
	Now time.Time
}

// Failure is why the node ends a pod, as its status tells.
type Failure struct {
	Reason, Message string
}

// Generate makes the status of a pod. Times have seconds and termination messages have their final length, so that
// equal states give equal statuses. Conditions of others are those of Pod.Status.
func Generate(in Input) v1.PodStatus {
	g := generation{in: in, old: in.Cached}
	if g.old == nil {
		g.old = &in.Pod.Status
	}
	status := v1.PodStatus{
		ObservedGeneration:         max(in.Pod.Generation, g.old.ObservedGeneration),
		QOSClass:                   podrules.QOSClass(in.Pod),
		StartTime:                  g.startTime(),
		InitContainerStatuses:      g.initContainers(),
		ContainerStatuses:          g.containers(),
		EphemeralContainerStatuses: g.ephemeralContainers(),
	}
	g.setPodResources(&status)
	g.setPhase(&status)
	g.setAddresses(&status)
	status.Conditions = g.conditions(&status)
	normalize(in.Pod, &status)
	return status
}

// generation is one run of Generate.
type generation struct {
	in Input
	// old is what was last said of the pod.
	old *v1.PodStatus
}

func (g *generation) startTime() *metav1.Time {
	for _, known := range []*v1.PodStatus{g.old, &g.in.Pod.Status} {
		if known.StartTime != nil && !known.StartTime.IsZero() {
			return known.StartTime.DeepCopy()
		}
	}
	return &metav1.Time{Time: g.in.Now}
}

// setPhase computes the phase, its reason and its message from the container statuses. A phase that was terminal stays,
// that of the API before all.
func (g *generation) setPhase(status *v1.PodStatus) {
	api := &g.in.Pod.Status
	switch {
	case podrules.Terminal(api.Phase):
		status.Phase = api.Phase
	case podrules.Terminal(g.old.Phase):
		status.Phase = g.old.Phase
	case g.in.Failure != nil:
		status.Phase = v1.PodFailed
		status.Reason, status.Message = g.in.Failure.Reason, g.in.Failure.Message
		return
	case PastDeadline(g.in.Pod, status.StartTime, g.in.Now):
		status.Phase = v1.PodFailed
		status.Reason = ReasonDeadlineExceeded
		status.Message = MessageDeadlineExceeded
		return
	default:
		status.Phase = phase(g.in.Pod, status, g.in.Terminal, podrules.PastInit(g.in.Pod, g.in.Runtime))
	}
	if status.Phase == g.old.Phase {
		status.Reason, status.Message = g.old.Reason, g.old.Message
	}
	if status.Phase == api.Phase {
		if status.Reason == "" {
			status.Reason = api.Reason
		}
		if status.Message == "" {
			status.Message = api.Message
		}
	}
}

// PastDeadline says whether a pod that started at the given time has been active for longer than its spec allows.
func PastDeadline(pod *v1.Pod, started *metav1.Time, now time.Time) bool {
	deadline, ok := Deadline(pod, started)
	return ok && !now.Before(deadline)
}

// Deadline returns when the active deadline of a pod that started at the given time passes; ok is false if it has none.
func Deadline(pod *v1.Pod, started *metav1.Time) (at time.Time, ok bool) {
	if pod.Spec.ActiveDeadlineSeconds == nil || started == nil {
		return time.Time{}, false
	}
	return started.Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second), true
}
