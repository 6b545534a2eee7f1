// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
	"github.com/tombolo-dev/tombolo/lifecycle/termination"
)

// KillReason says why a container is killed while its pod lives on.
type KillReason = termination.KillReason

// The reasons for which a sync kills a container.
const (
	// KillDefinitionChanged is a container that was created from another definition than the pod's present one.
	KillDefinitionChanged KillReason = "DefinitionChanged"
	// KillUnknown is a container that the runtime lost; it may run.
	KillUnknown KillReason = "Unknown"
	// KillStray is a container that runs beside a newer one of its name or outside the pod's sandbox.
	KillStray KillReason = "Stray"
	// KillLivenessFailed and KillStartupFailed are containers whose probe failed.
	KillLivenessFailed = termination.KillLivenessFailed
	KillStartupFailed  = termination.KillStartupFailed
	// KillPostStartFailed is a container whose postStart hook failed.
	KillPostStartFailed KillReason = "PostStartFailed"
	// KillResize is a container whose resources changed and whose policy asks for a restart then.
	KillResize KillReason = "Resize"
	// KillRestartAll is a container that goes because all of the pod are restarted. It gets no hook and no grace period.
	KillRestartAll KillReason = "RestartAllContainers"
)

// ContainerKill is a container to kill. Message is that of its Killing event.
type ContainerKill struct {
	Container *cri.ContainerStatus
	Reason    KillReason
	Message   string
}

// Actions are what a sync has to do, in the order of the fields. Containers to start are given by their index in the spec.
type Actions struct {
	// KillPod asks for the end of everything of the pod that runs, sandboxes included. CreateSandbox asks for a new
	// sandbox after that.
	KillPod       bool
	CreateSandbox bool
	// SandboxID is the sandbox to use, "" if it has to be made. Attempt is the attempt number of the one or the other.
	SandboxID string
	Attempt   uint32
	// ToKill are single containers to kill. It is empty if the whole pod is killed.
	ToKill []ContainerKill
	// ToRemove are the records to remove one after the other, logs kept, because all containers are restarted: the next
	// sync begins with the init containers. With it nothing is started.
	ToRemove []*cri.ContainerStatus
	// ToHook are running containers whose postStart hook is not known to have ended.
	ToHook []*cri.ContainerStatus
	// EphemeralToStart, InitToStart and ToStart are ephemeral, init (sidecars among them) and regular containers to start,
	// in the order of the spec.
	EphemeralToStart []int
	InitToStart      []int
	ToStart          []int
}

// starts says whether anything is made or started.
func (a *Actions) starts() bool {
	return a.CreateSandbox || len(a.EphemeralToStart) > 0 || len(a.InitToStart) > 0 || len(a.ToStart) > 0
}

// Input is what actions are computed from. Only Pod is required.
type Input struct {
	Pod *v1.Pod
	// Status is an observation of the pod in the runtime; nil is one of nothing.
	Status *cri.PodStatus
	// Probes are asked about containers that have a probe. Without them the result of every probe is unknown.
	Probes podrules.ProbeResults
	// AwaitsPostStart says of a running container whose definition has a postStart hook whether that is not known to have
	// ended well. Without it no hook is awaited.
	AwaitsPostStart func(cs *cri.ContainerStatus) bool
	// ResizeRestarts says of a running container whether its resources changed in such a way that it must be restarted.
	// Without it none must.
	ResizeRestarts func(c *v1.Container, cs *cri.ContainerStatus) bool
	// StartedBefore says whether this process has started the named container. What it does not know of, the pod's status in
	// the API may tell. It may be nil.
	StartedBefore func(container string) bool
}

// ComputeActions compares a pod with an observation of it. It keeps neither, but the result refers to records of the
// observation.
//
// A pod that is being deleted gets no action: its end is not a matter of a sync. A container is only ever started when
// every other record of its name that runs, or may run, is killed in the same actions.
func ComputeActions(in Input) Actions {
	if in.Status == nil {
		in.Status = &cri.PodStatus{UID: in.Pod.UID}
	}
	if in.Pod.DeletionTimestamp != nil {
		return Actions{}
	}
	need := podrules.SandboxNeedOf(in.Pod, in.Status)
	if need.New {
		return newSandboxActions(in.Pod, in.Status, need)
	}
	p := plan{Input: in, actions: Actions{SandboxID: need.SandboxID, Attempt: need.Attempt}}
	if podrules.RestartAllTriggered(in.Pod, in.Status) {
		p.restartAll()
		return p.actions
	}
	p.killStrays()
	p.ephemeral()
	if p.initialise() {
		p.regular()
	}
	if p.actions.KillPod {
		return Actions{KillPod: true, SandboxID: need.SandboxID, Attempt: need.Attempt}
	}
	return p.actions
}

// newSandboxActions are those for a pod without a usable sandbox. What runs is in a sandbox that will not do, so
// everything goes, and then the pod begins again, with its init containers, unless it must not run again.
func newSandboxActions(pod *v1.Pod, status *cri.PodStatus, need podrules.SandboxNeed) Actions {
	a := Actions{
		KillPod: len(status.Sandboxes) > 0 || anyMayRun(status),
		Attempt: need.Attempt,
	}
	if runsOnce(pod, status) {
		return a
	}
	var start []int
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		newest := status.Newest(c.Name)
		if newest != nil && newest.State == cri.ContainerExited && newest.ExitCode == 0 && !podrules.Restartable(pod, c, 0) {
			continue
		}
		start = append(start, i)
	}
	if len(start) == 0 {
		return a
	}
	a.CreateSandbox = true
	if len(pod.Spec.InitContainers) > 0 {
		a.InitToStart = []int{0}
	} else {
		a.ToStart = start
	}
	return a
}

// Over says whether the pod will never run again, whatever its containers' statuses say: it runs only once, and its sandbox
// ended after it had begun to. A container that was to start later never will. A kubelet shows such a pod as Pending for ever.
func Over(pod *v1.Pod, status *cri.PodStatus) bool {
	return podrules.SandboxNeedOf(pod, status).New && runsOnce(pod, status)
}

// runsOnce says whether the pod must not run in another sandbox.
func runsOnce(pod *v1.Pod, status *cri.PodStatus) bool {
	return pod.Spec.RestartPolicy == v1.RestartPolicyNever && hasRun(pod, status)
}

// hasRun says whether a pod that runs only once has had its run. A container that was created and never started has
// not run; init containers that succeeded may run again, for their pod would otherwise never get beyond them. What was
// debugged meanwhile does not count.
func hasRun(pod *v1.Pod, status *cri.PodStatus) bool {
	for i := range status.Containers {
		record := &status.Containers[i]
		switch {
		case record.State == cri.ContainerCreated, kindOf(pod, record.Name) == podrules.EphemeralContainer:
		case isRegular(pod, record.Name):
			return true
		case record.State != cri.ContainerExited || podrules.InitFailed(record):
			return true
		}
	}
	return false
}

func isRegular(pod *v1.Pod, name string) bool { return kindOf(pod, name) == podrules.RegularContainer }

func kindOf(pod *v1.Pod, name string) podrules.ContainerKind {
	_, kind := podrules.Find(pod, name)
	return kind
}

func anyMayRun(status *cri.PodStatus) bool {
	for i := range status.Containers {
		if status.Containers[i].MayRun() {
			return true
		}
	}
	return false
}
