// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// excuses are what a history did to pods for which a right node may stop containers of theirs, or leave out a hook.
type excuses struct {
	mu   sync.Mutex
	pods map[types.UID]bool
	lost map[string]bool
	host bool
}

func newExcuses() *excuses { return &excuses{pods: map[types.UID]bool{}, lost: map[string]bool{}} }

// all excuses every stop of the pod's containers from now on.
func (e *excuses) all(uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pods[uid] = true
}

// lose says that the runtime does not tell whether the container runs.
func (e *excuses) lose(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lost[id] = true
}

// hostDied says that the records of hooks may be incomplete.
func (e *excuses) hostDied() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.host = true
}

func (e *excuses) pod(uid types.UID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pods[uid]
}

func (e *excuses) hook(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lost[id]
}
