// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The questions below have an answer for UIDs without a worker too: before the first complete view of what is
// desired, an unknown pod may be anything; after it, an unknown pod has been dealt with.

// CouldHaveRunningContainers says whether a container of the pod may be running.
func (w *Workers) CouldHaveRunningContainers(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if wk, ok := w.byUID[uid]; ok {
		return wk.state.terminatedAt.IsZero()
	}
	return !w.synced
}

// TerminationRequested says whether the pod is on its way out.
func (w *Workers) TerminationRequested(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	wk, ok := w.byUID[uid]
	return ok && !wk.state.terminatingAt.IsZero()
}

// ContentRemovable says whether the pod's dead containers, sandboxes and logs may be removed. desired says whether the API
// still has the pod.
func (w *Workers) ContentRemovable(uid types.UID, desired bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if wk, ok := w.byUID[uid]; ok {
		return wk.state.deleted && wk.state.finished && !desired
	}
	return w.synced && !desired
}

// NameInUse says whether another pod of the pod's namespace and name may have running containers.
func (w *Workers) NameInUse(pod *v1.Pod) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, wk := range w.byUID {
		if uid == pod.UID || !wk.state.terminatedAt.IsZero() {
			continue
		}
		if wk.pod != nil && wk.pod.Namespace == pod.Namespace && wk.pod.Name == pod.Name ||
			wk.runtime != nil && wk.runtime.Namespace == pod.Namespace && wk.runtime.Name == pod.Name {
			return true
		}
	}
	return false
}

// FirstSeen returns when the pod of a worker was first heard of, zero if there is none.
func (w *Workers) FirstSeen(uid types.UID) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if wk, ok := w.byUID[uid]; ok {
		return wk.state.firstSeen
	}
	return time.Time{}
}

// Known says whether there is a worker for the UID.
func (w *Workers) Known(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.byUID[uid]
	return ok
}
