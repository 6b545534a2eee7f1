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
	ids  map[string]bool
	lost map[string]bool
}

func newExcuses() *excuses {
	return &excuses{pods: map[types.UID]bool{}, ids: map[string]bool{}, lost: map[string]bool{}}
}

// all excuses every stop of the pod's containers from now on.
func (e *excuses) all(uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pods[uid] = true
}

// stop excuses the stop of one container.
func (e *excuses) stop(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ids[id] = true
}

// lose says that the runtime does not tell whether the container runs: it may be stopped, and without its hook.
func (e *excuses) lose(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lost[id] = true
}

// mayStop says whether the container may be stopped for what was done to it.
func (e *excuses) mayStop(uid types.UID, id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pods[uid] || e.ids[id] || e.lost[id]
}

// noHook says whether the hook of the container may be left out.
func (e *excuses) noHook(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lost[id]
}
