// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// KillReason says why a container is killed while its pod lives on. It is for logs.
type KillReason string

// The reasons for which a sync kills a container.
const (
	// KillDefinitionChanged is a container that was created from another definition than the pod's present one.
	KillDefinitionChanged KillReason = "DefinitionChanged"
	// KillUnknown is a container that the runtime lost; it may run.
	KillUnknown KillReason = "Unknown"
	// KillStray is a container that runs beside a newer one of its name or outside the pod's sandbox.
	KillStray KillReason = "Stray"
)

// ContainerKill is a container to kill. Message is that of its Killing event.
type ContainerKill struct {
	Container *cri.ContainerStatus
	Reason    KillReason
	Message   string
}

// Actions are what a sync has to do, in the order of the fields. Containers are given by their index in the spec.
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
	// InitToStart and ToStart are init and regular containers to start, in the order of the spec.
	InitToStart []int
	ToStart     []int
}

// starts says whether anything is made or started.
func (a *Actions) starts() bool {
	return a.CreateSandbox || len(a.InitToStart) > 0 || len(a.ToStart) > 0
}

// ComputeActions compares the pod with an observation of it (nil is one of nothing). It keeps neither, but the result
// refers to records of the observation.
//
// A pod that is being deleted gets no action: its end is not a matter of a sync. A container is only ever started when
// every other record of its name that runs, or may run, is killed in the same actions.
func ComputeActions(pod *v1.Pod, status *cri.PodStatus) Actions {
	if status == nil {
		status = &cri.PodStatus{UID: pod.UID}
	}
	if pod.DeletionTimestamp != nil {
		return Actions{}
	}
	need := podrules.SandboxNeedOf(pod, status)
	if need.New {
		return newSandboxActions(pod, status, need)
	}
	p := plan{pod: pod, status: status, actions: Actions{SandboxID: need.SandboxID, Attempt: need.Attempt}}
	p.killStrays()
	if p.initialise() {
		p.regular()
	}
	if p.actions.KillPod {
		p.actions.ToKill, p.actions.InitToStart, p.actions.ToStart = nil, nil, nil
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
	if pod.Spec.RestartPolicy == v1.RestartPolicyNever && hasRun(pod, status) {
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

// hasRun says whether a pod that runs only once has had its run. A container that was created and never started has
// not run; init containers that succeeded may run again, for their pod would otherwise never get beyond them.
func hasRun(pod *v1.Pod, status *cri.PodStatus) bool {
	for i := range status.Containers {
		record := &status.Containers[i]
		switch {
		case record.State == cri.ContainerCreated:
		case isRegular(pod, record.Name):
			return true
		case record.State != cri.ContainerExited || podrules.InitFailed(record):
			return true
		}
	}
	return false
}

func isRegular(pod *v1.Pod, name string) bool {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return true
		}
	}
	return false
}

// plan computes the actions of a pod whose sandbox will do.
type plan struct {
	pod     *v1.Pod
	status  *cri.PodStatus
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
	for i := range p.status.Containers {
		record := &p.status.Containers[i]
		current := !newest[record.Name] && record.SandboxID == p.actions.SandboxID
		newest[record.Name] = true
		if !current && record.MayRun() && !isEphemeral(p.pod, record.Name) {
			p.kill(record, KillStray, fmt.Sprintf("Container %s runs beside its replacement", record.Name))
		}
	}
}

// initialise looks at the init containers from the last to the first, for the first record found tells how far the pod
// has come. It returns true when the regular containers may run.
func (p *plan) initialise() bool {
	inits := p.pod.Spec.InitContainers
	if len(inits) == 0 || podrules.PastInit(p.pod, p.status) {
		return true
	}
	for i, c := range slices.Backward(inits) {
		if record := p.inSandbox(c.Name); record != nil {
			return p.afterInit(i, record)
		}
	}
	p.actions.InitToStart = []int{0}
	return false
}

// afterInit decides what follows from the newest record of the i-th init container.
func (p *plan) afterInit(i int, record *cri.ContainerStatus) bool {
	mayRetry := p.pod.Spec.RestartPolicy != v1.RestartPolicyNever
	switch record.State {
	case cri.ContainerRunning:
		return false
	case cri.ContainerCreated:
		p.actions.InitToStart = []int{i}
		return false
	case cri.ContainerExited:
		if !podrules.InitFailed(record) {
			if i+1 == len(p.pod.Spec.InitContainers) {
				return true
			}
			p.actions.InitToStart = []int{i + 1}
			return false
		}
	default:
		if mayRetry {
			p.kill(record, KillUnknown, fmt.Sprintf("Init container is in %q state, try killing it before restart", record.State))
		}
	}
	if mayRetry {
		p.actions.InitToStart = []int{i}
	} else {
		p.actions.KillPod = true
	}
	return false
}

// regular decides about the regular containers of a pod that has been initialised.
func (p *plan) regular() {
	kept := 0
	for i := range p.pod.Spec.Containers {
		c := &p.pod.Spec.Containers[i]
		newest := p.status.Newest(c.Name)
		switch {
		case newest != nil && newest.State == cri.ContainerRunning && !p.definitionChanged(c, newest):
			// It runs, or it is a stray that is killed now and whose end decides what follows.
			kept++
		case newest != nil && newest.State == cri.ContainerRunning:
			// Whatever the restart policy says: the new definition has not run yet.
			p.kill(newest, KillDefinitionChanged, fmt.Sprintf("Container %s definition changed, will be restarted", c.Name))
			p.actions.ToStart = append(p.actions.ToStart, i)
		case podrules.ShouldRestart(p.pod, c, newest):
			if newest != nil && newest.State == cri.ContainerUnknown {
				p.kill(newest, KillUnknown, fmt.Sprintf("Container is in %q state, try killing it before restart", newest.State))
			}
			p.actions.ToStart = append(p.actions.ToStart, i)
		}
	}
	p.actions.KillPod = kept == 0 && len(p.actions.ToStart) == 0
}

// definitionChanged says whether a running container was created from another definition. One that is being killed for
// another reason is not looked at.
func (p *plan) definitionChanged(c *v1.Container, record *cri.ContainerStatus) bool {
	return !p.dying[record.ID] && record.Hash != "" && record.Hash != cri.ContainerHash(c)
}

// inSandbox returns the newest record of the container in the pod's sandbox.
func (p *plan) inSandbox(name string) *cri.ContainerStatus {
	for i := range p.status.Containers {
		record := &p.status.Containers[i]
		if record.Name == name && record.SandboxID == p.actions.SandboxID {
			return record
		}
	}
	return nil
}

func anyMayRun(status *cri.PodStatus) bool {
	for i := range status.Containers {
		if status.Containers[i].MayRun() {
			return true
		}
	}
	return false
}

func isEphemeral(pod *v1.Pod, name string) bool {
	for i := range pod.Spec.EphemeralContainers {
		if pod.Spec.EphemeralContainers[i].Name == name {
			return true
		}
	}
	return false
}
