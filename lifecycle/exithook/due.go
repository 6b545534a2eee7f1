// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package exithook

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// Annotation opts a pod in when it is "true".
const Annotation = "tombolo.dev/prestop-on-exit"

// Wanted says whether the pod asks for preStop hooks after a natural end.
func Wanted(pod *v1.Pod) bool { return pod.Annotations[Annotation] == "true" }

// Input is what Due decides by.
type Input struct {
	Pod *v1.Pod
	// Status is the observation with which the pod's end begins, or a later one.
	Status *cri.PodStatus
	// Completed says that this process saw that every regular container ended for good before anybody ended the pod.
	Completed bool
	// ClockOffset is how far the host's clock is ahead of ours.
	ClockOffset time.Duration
}

// Hook is one hook that is due.
type Hook struct {
	Container *v1.Container
	// Record is that of the container that ended.
	Record *cri.ContainerStatus
	// Runner is the record of the container that runs an exec hook, nil if there is none yet.
	Runner *cri.ContainerStatus
}

// Due returns the hooks of the regular containers that have ended, if the pod completed by itself. Those that have run are
// among them: their records say so. A sidecar runs until the pod's end and is stopped then with its hook like any other
// container that runs.
func Due(in Input) []Hook {
	if !Wanted(in.Pod) || !byItself(in) {
		return nil
	}
	var due []Hook
	for i := range in.Pod.Spec.Containers {
		c := &in.Pod.Spec.Containers[i]
		record := in.Status.Newest(c.Name)
		if c.Lifecycle == nil || c.Lifecycle.PreStop == nil || !ran(record) {
			continue
		}
		due = append(due, Hook{Container: c, Record: record, Runner: in.Status.ExitHook(c.Name)})
	}
	return due
}

// ran says whether the container ran and has ended. One that could not be started has nothing to clean up.
func ran(record *cri.ContainerStatus) bool {
	return record != nil && record.State == cri.ContainerExited && !record.StartedAt.IsZero()
}

// byItself says whether the pod completed by itself. What this process saw counts first. After a restart of the process, a
// hook that was begun says that an earlier one saw it; and of a pod that is being deleted, that every container had ended for
// good before the deletion was asked for. A pod that another writer failed, or that was stopped while it ran, did not.
func byItself(in Input) bool {
	for i := range in.Pod.Spec.Containers {
		if record := in.Status.Newest(in.Pod.Spec.Containers[i].Name); record != nil && record.MayRun() {
			return false
		}
	}
	return in.Completed || len(in.Status.ExitHooks) > 0 || endedBeforeDeletion(in)
}

// finished says whether every regular container has ended for good.
func finished(pod *v1.Pod, status *cri.PodStatus) bool {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		record := status.Newest(c.Name)
		if record == nil || record.State != cri.ContainerExited || podrules.Restartable(pod, c, record.ExitCode) {
			return false
		}
	}
	return true
}

// endedBeforeDeletion compares the host's clock with the API server's, whose timestamps have whole seconds: in doubt the
// deletion came first.
func endedBeforeDeletion(in Input) bool {
	pod := in.Pod
	if pod.DeletionTimestamp == nil || podrules.Terminal(pod.Status.Phase) || !finished(pod, in.Status) {
		return false
	}
	asked := pod.DeletionTimestamp.Add(-podrules.GracePeriod(pod, 0))
	for i := range pod.Spec.Containers {
		if !in.Status.Newest(pod.Spec.Containers[i].Name).FinishedAt.Add(-in.ClockOffset).Before(asked) {
			return false
		}
	}
	return true
}
