// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// tally counts the containers of a pod by what their statuses say.
type tally struct {
	// Regular init containers: those that have yet to end, and those that failed and may not start again.
	pendingInit, failedInit int
	// Sidecars that have yet to be started.
	pendingSidecars int
	// Sidecars and regular containers.
	unknown, running, waiting int
	// Regular containers that ended; some of them for good, some with exit code 0.
	stopped, stoppedForGood, succeeded int
}

// phase is the phase that follows from the container statuses alone. terminal says that the pod was stopped for good,
// pastInit that a regular container has been made in the present sandbox.
func phase(pod *v1.Pod, status *v1.PodStatus, terminal, pastInit bool) v1.PodPhase {
	t := count(pod, status)
	switch {
	case t.failedInit > 0:
		return v1.PodFailed
	case t.pendingInit > 0, t.pendingSidecars > 0 && !pastInit, t.waiting > 0:
		return v1.PodPending
	case t.running > 0 && t.unknown == 0:
		return v1.PodRunning
	case t.running == 0 && t.stopped > 0 && t.unknown == 0:
		return stoppedPhase(t, terminal)
	default:
		return v1.PodPending
	}
}

// stoppedPhase is the phase of a pod of which nothing runs. As long as the pod lives, a container that will start again
// keeps it Running.
func stoppedPhase(t tally, terminal bool) v1.PodPhase {
	switch {
	case !terminal && t.stopped != t.stoppedForGood:
		return v1.PodRunning
	case t.stopped == t.succeeded:
		return v1.PodSucceeded
	default:
		return v1.PodFailed
	}
}

func count(pod *v1.Pod, status *v1.PodStatus) tally {
	var t tally
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		st := find(status.InitContainerStatuses, c.Name)
		if podrules.IsSidecar(c) {
			t.countSidecar(st)
		} else {
			t.countInit(pod, c, st)
		}
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		t.countRegular(pod, c, find(status.ContainerStatuses, c.Name))
	}
	return t
}

func (t *tally) countInit(pod *v1.Pod, c *v1.Container, st *v1.ContainerStatus) {
	ended := end(st)
	if ended == nil {
		t.pendingInit++
		return
	}
	record := cri.ContainerStatus{ExitCode: ended.ExitCode, Reason: ended.Reason}
	if podrules.InitFailed(&record) && ended.Reason != reasonRestartingAll && !podrules.InitRestartable(pod, c, &record) {
		t.failedInit++
	}
}

// countSidecar leaves out a sidecar that ended: it will start again or the pod is over, and neither changes the phase.
func (t *tally) countSidecar(st *v1.ContainerStatus) {
	switch {
	case st == nil:
		t.unknown++
	case st.State.Running != nil:
		t.running++
		if st.Started == nil || !*st.Started {
			t.pendingSidecars++
		}
	case end(st) != nil:
	case st.State.Waiting != nil:
		t.waiting++
		t.pendingSidecars++
	default:
		t.unknown++
		t.pendingSidecars++
	}
}

func (t *tally) countRegular(pod *v1.Pod, c *v1.Container, st *v1.ContainerStatus) {
	ended := end(st)
	switch {
	case st == nil:
		t.unknown++
	case st.State.Running != nil:
		t.running++
	case ended != nil:
		t.stopped++
		if ended.Reason != reasonRestartingAll && !podrules.Restartable(pod, c, ended.ExitCode) {
			t.stoppedForGood++
		}
		// A container that waits to start again has not succeeded, however its last run ended.
		if st.State.Terminated != nil && ended.ExitCode == 0 {
			t.succeeded++
		}
	case st.State.Waiting != nil:
		t.waiting++
	default:
		t.unknown++
	}
}

// end returns how a container that does not run ended: now, or the last time if it waits to start again. Nil if it runs
// or never ended.
func end(st *v1.ContainerStatus) *v1.ContainerStateTerminated {
	switch {
	case st == nil || st.State.Running != nil:
		return nil
	case st.State.Terminated != nil:
		return st.State.Terminated
	case st.State.Waiting != nil:
		return st.LastTerminationState.Terminated
	default:
		return nil
	}
}

// find returns the status of the named container, nil if there is none. It is not copied.
func find(statuses []v1.ContainerStatus, name string) *v1.ContainerStatus {
	for i := range statuses {
		if statuses[i].Name == name {
			return &statuses[i]
		}
	}
	return nil
}
