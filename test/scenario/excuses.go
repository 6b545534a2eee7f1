// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// excuses are what a history did for which a right node may stop a container, or leave out its hook.
type excuses struct {
	mu   sync.Mutex
	pods map[types.UID]bool
	// names are containers of pods, lost are single instances.
	names map[containerName]bool
	lost  map[string]bool
	// losers are pods of which a container was lost, or is killed and not started again.
	losers map[types.UID]bool
}

// containerName names a container of a pod, whichever instance it is.
type containerName struct {
	uid  types.UID
	name string
}

func newExcuses() *excuses {
	return &excuses{
		pods: map[types.UID]bool{}, names: map[containerName]bool{}, lost: map[string]bool{},
		losers: map[types.UID]bool{},
	}
}

// all excuses every stop of the pod's containers from now on.
func (e *excuses) all(uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pods[uid] = true
}

// container excuses every stop of one container from now on.
func (e *excuses) container(uid types.UID, name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.names[containerName{uid, name}] = true
}

// lose says that the runtime does not tell whether the container runs: it may be stopped, and without its hook, which may be
// the end of its pod.
func (e *excuses) lose(uid types.UID, id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lost[id], e.losers[uid] = true, true
}

// mayEnd says that a container may be killed for good, which may be the end of its pod.
func (e *excuses) mayEnd(uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.losers[uid] = true
}

// mayStop says whether the container may be stopped for what was done to it.
func (e *excuses) mayStop(uid types.UID, name, id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pods[uid] || e.names[containerName{uid, name}] || e.lost[id]
}

// mayBeDone says whether the loss or the kill of a container may be the end of the pod.
func (e *excuses) mayBeDone(uid types.UID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.losers[uid]
}

// noHook says whether the hook of the container may be left out.
func (e *excuses) noHook(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lost[id]
}
