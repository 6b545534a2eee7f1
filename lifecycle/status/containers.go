// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"path"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// kind is what a container is to its pod.
type kind int

const (
	regular kind = iota
	initial
	ephemeral
)

// initContainers are in the order of the spec.
func (g *generation) initContainers() []v1.ContainerStatus {
	return g.each(initial, g.in.Pod.Spec.InitContainers, g.old.InitContainerStatuses, g.in.Pod.Status.InitContainerStatuses)
}

// containers are sorted by name, as the kubelet sorts them.
func (g *generation) containers() []v1.ContainerStatus {
	return g.each(regular, g.in.Pod.Spec.Containers, g.old.ContainerStatuses, g.in.Pod.Status.ContainerStatuses)
}

// ephemeralContainers are sorted by name.
func (g *generation) ephemeralContainers() []v1.ContainerStatus {
	specs := make([]v1.Container, 0, len(g.in.Pod.Spec.EphemeralContainers))
	for i := range g.in.Pod.Spec.EphemeralContainers {
		specs = append(specs, v1.Container(g.in.Pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	return g.each(ephemeral, specs, g.old.EphemeralContainerStatuses, g.in.Pod.Status.EphemeralContainerStatuses)
}

func (g *generation) each(k kind, specs []v1.Container, old, api []v1.ContainerStatus) []v1.ContainerStatus {
	var statuses []v1.ContainerStatus
	for i := range specs {
		st := g.container(k, &specs[i], find(old, specs[i].Name))
		// A count is never lowered, whoever raised it.
		if known := find(api, specs[i].Name); known != nil {
			st.RestartCount = max(st.RestartCount, known.RestartCount)
		}
		statuses = append(statuses, st)
	}
	if k != initial {
		sortByName(statuses)
	}
	return statuses
}

func sortByName(statuses []v1.ContainerStatus) {
	slices.SortStableFunc(statuses, func(a, b v1.ContainerStatus) int { return cmp.Compare(a.Name, b.Name) })
}

// container makes the status of one container from its two newest records and from what was said of it before.
func (g *generation) container(k kind, c *v1.Container, old *v1.ContainerStatus) v1.ContainerStatus {
	newest, second := g.records(c.Name)
	if k != ephemeral && newest == nil && g.removedToRestart(c, old) {
		st := g.restarted(c, old)
		g.setStarted(k, c, &st, old)
		st.VolumeMounts = volumeMounts(c, nil)
		return st
	}
	current := newest
	if isHistory(newest, old) {
		current, second = nil, newest
	}
	var st v1.ContainerStatus
	if current == nil {
		st = g.withoutRecord(k, c, old)
	} else {
		st = g.withRecord(current, old)
		setStopSignal(c, current, &st)
	}
	if current != nil || k != ephemeral && condition(g.in.Resize, v1.PodResizePending) != nil {
		g.setResources(c, current, &st)
	}
	st.LastTerminationState = v1.ContainerState{Terminated: g.lastEnd(&st, old, second)}

	switch {
	case g.inferredInit(k, c, newest, &st):
		st.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			Reason: reasonCompleted, Message: messageInitInferred,
		}}
	case g.mayStart(k, c, newest, &st):
		g.applyWaitingReason(c, &st)
	case g.endsHere():
		settle(&st)
	}
	g.setStarted(k, c, &st, old)
	st.VolumeMounts = volumeMounts(c, newest)
	return st
}

// records returns the two newest records of a container.
func (g *generation) records(name string) (newest, second *cri.ContainerStatus) {
	if g.in.Runtime == nil {
		return nil, nil
	}
	for i := range g.in.Runtime.Containers {
		r := &g.in.Runtime.Containers[i]
		switch {
		case r.Name != name:
		case newest == nil:
			newest = r
		default:
			return newest, r
		}
	}
	return newest, nil
}

// withoutRecord is the status of a container that the runtime knows nothing of. How it ended stays known. If it was
// running, its end was missed.
func (g *generation) withoutRecord(k kind, c *v1.Container, old *v1.ContainerStatus) v1.ContainerStatus {
	st := v1.ContainerStatus{Name: c.Name, Image: c.Image}
	if old != nil {
		if old.State.Terminated != nil || g.in.Runtime == nil {
			return *old.DeepCopy()
		}
		st.RestartCount = old.RestartCount
		st.ContainerID, st.ImageID = old.ContainerID, old.ImageID
		if k == ephemeral && old.State.Running != nil { // it is never made again
			st.Image, st.User = old.Image, old.User.DeepCopy()
			st.State.Terminated = guess(messageNotFoundTerminated, old.ContainerID)
			return st
		}
		if old.State.Running != nil {
			// The instance is gone and is counted here, for the next one may be made from records that do not know of it.
			st.ContainerID, st.ImageID = "", ""
			if g.in.Pod.DeletionTimestamp == nil {
				st.RestartCount++
			}
		}
	}
	st.State.Waiting = g.waiting()
	return st
}

// waiting is the state of a container of which nothing is known but that it does not run yet.
func (g *generation) waiting() *v1.ContainerStateWaiting {
	if len(g.in.Pod.Spec.InitContainers) > 0 {
		return &v1.ContainerStateWaiting{Reason: reasonPodInitializing}
	}
	return &v1.ContainerStateWaiting{Reason: reasonContainerCreating}
}

// withRecord is the status of a container of which r is the newest record.
func (g *generation) withRecord(r *cri.ContainerStatus, old *v1.ContainerStatus) v1.ContainerStatus {
	st := v1.ContainerStatus{
		Name:         r.Name,
		Image:        r.Image,
		ImageID:      r.ImageID,
		ContainerID:  containerID(r),
		RestartCount: restartCount(r, old),
		User:         user(r.User),
	}
	switch r.State {
	case cri.ContainerRunning:
		if g.in.Starting != nil && !g.endsHere() && g.in.Starting(r) {
			st.State.Waiting = g.waiting()
			break
		}
		st.State.Running = &v1.ContainerStateRunning{StartedAt: apiTime(r.StartedAt)}
	case cri.ContainerExited:
		st.State.Terminated = g.terminated(r, knownEnd(old, st.ContainerID))
	case cri.ContainerCreated:
		st.State.Waiting = &v1.ContainerStateWaiting{}
	default:
		g.setLost(&st, old)
	}
	return st
}

// setStopSignal tells what the container is stopped with if it asks for a signal: an API server that drops the wish would
// drop the answer, too, and it would be written again and again.
func setStopSignal(c *v1.Container, r *cri.ContainerStatus, st *v1.ContainerStatus) {
	if c.Lifecycle == nil || c.Lifecycle.StopSignal == nil || r.StopSignal == "" {
		return
	}
	st.StopSignal = new(v1.Signal(r.StopSignal))
}

// setLost is for a container of which the runtime has a record but no state. If it was running, it must have ended;
// saying that it waits could make a pod that runs once run again.
func (g *generation) setLost(st, old *v1.ContainerStatus) {
	switch {
	case old != nil && old.State.Terminated != nil && old.ContainerID == st.ContainerID:
		st.State.Terminated = old.State.Terminated.DeepCopy()
	case old != nil && old.State.Running != nil:
		st.State.Terminated = guess(messageNotFoundTerminated, st.ContainerID)
		st.RestartCount = max(st.RestartCount, old.RestartCount+1)
	default:
		st.State.Waiting = &v1.ContainerStateWaiting{}
	}
}

// restartCount is the number of the record. Records may have been lost: a number never falls, and an instance that
// follows one that ran has at least the next number.
func restartCount(r *cri.ContainerStatus, old *v1.ContainerStatus) int32 {
	if old == nil {
		return r.RestartCount
	}
	before := old.RestartCount
	ran := old.State.Running != nil || ownEnd(old) != nil
	if ran && old.ContainerID != "" && old.ContainerID != containerID(r) && !isGuess(old.State.Terminated) {
		before++
	}
	return max(r.RestartCount, before)
}

// isHistory says whether the newest record there is belongs to an instance before the one that is already known, whose
// own record was removed. One with a higher number is newer whatever the host's clock said.
func isHistory(r *cri.ContainerStatus, old *v1.ContainerStatus) bool {
	if r == nil || r.State == cri.ContainerRunning || old == nil || old.ContainerID == "" || old.ContainerID == containerID(r) ||
		r.RestartCount > old.RestartCount {
		return false
	}
	var started metav1.Time
	if old.State.Running != nil {
		started = old.State.Running.StartedAt
	} else if ended := ownEnd(old); ended != nil {
		started = ended.StartedAt
	}
	return !started.IsZero() && r.CreatedAt.Before(started.Time)
}

// mayStart says whether the container will be started in the next sync, as far as is known: only then the reason that
// keeps it waiting is told.
func (g *generation) mayStart(k kind, c *v1.Container, newest *cri.ContainerStatus, st *v1.ContainerStatus) bool {
	switch {
	case g.in.Runtime == nil || g.endsHere():
		return false
	case k == ephemeral && (newest != nil && newest.State != cri.ContainerCreated || st.State.Terminated != nil):
		return false // it is started once
	case newest == nil && st.State.Terminated != nil:
		return podrules.Restartable(g.in.Pod, c, st.State.Terminated.ExitCode)
	case newest != nil && newest.State == cri.ContainerUnknown:
		return podrules.MayRetry(g.in.Pod, c)
	case k == initial && !podrules.IsSidecar(c) && newest != nil && newest.State == cri.ContainerExited && !podrules.InitFailed(newest):
		return false
	default:
		return podrules.ShouldRestart(g.in.Pod, c, newest)
	}
}

// endsHere says that no container of the pod will be started any more.
func (g *generation) endsHere() bool {
	return g.in.Terminal || g.in.Pod.DeletionTimestamp != nil
}

// inferredInit says whether an init container of which nothing is known must have succeeded, since a regular container
// was made after it.
func (g *generation) inferredInit(k kind, c *v1.Container, newest *cri.ContainerStatus, st *v1.ContainerStatus) bool {
	return k == initial && !podrules.IsSidecar(c) && newest == nil && st.State.Waiting != nil &&
		podrules.RegularEverCreated(g.in.Pod, g.in.Runtime)
}

// applyWaitingReason shows why a container does not start. Without a reason its last state is more informative.
func (g *generation) applyWaitingReason(c *v1.Container, st *v1.ContainerStatus) {
	if g.in.WaitingReason == nil {
		return
	}
	reason, message, ok := g.in.WaitingReason(c.Name)
	if !ok {
		return
	}
	if st.State.Terminated != nil {
		st.LastTerminationState = v1.ContainerState{Terminated: st.State.Terminated}
	}
	st.State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason, Message: message}}
}

// volumeMounts tells of the mounts of a container what its definition says, and what the runtime was told for its newest record.
func volumeMounts(c *v1.Container, newest *cri.ContainerStatus) []v1.VolumeMountStatus {
	var mounts []v1.VolumeMountStatus
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		st := v1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		if m.ReadOnly {
			mode := v1.RecursiveReadOnlyDisabled
			if newest != nil && slices.Contains(newest.RecursiveReadOnly, path.Join("/", m.MountPath)) {
				mode = v1.RecursiveReadOnlyEnabled
			}
			st.RecursiveReadOnly = &mode
		}
		mounts = append(mounts, st)
	}
	return mounts
}

func user(u *cri.LinuxUser) *v1.ContainerUser {
	if u == nil {
		return nil
	}
	return &v1.ContainerUser{Linux: &v1.LinuxContainerUser{
		UID: u.UID, GID: u.GID, SupplementalGroups: slices.Clone(u.SupplementalGroups),
	}}
}

func containerID(r *cri.ContainerStatus) string {
	return cri.APIContainerID(r.ID)
}
