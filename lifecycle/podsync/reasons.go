// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Waiting reasons of a container that could not be started, as they appear in state.waiting.reason. Those about images
// come from the Images.
const (
	reasonConfig    = "CreateContainerConfigError"
	reasonCreate    = "CreateContainerError"
	reasonRun       = "RunContainerError"
	reasonPostStart = "PostStartHookError"
	reasonCrashLoop = "CrashLoopBackOff"
)

// waiting is why a container could not be started the last time.
type waiting struct{ reason, message string }

// reasonCache remembers why containers wait, until they start or their pod is forgotten.
type reasonCache struct {
	mu   sync.RWMutex
	pods map[types.UID]map[string]waiting
}

func newReasonCache() *reasonCache { return &reasonCache{pods: map[types.UID]map[string]waiting{}} }

func (r *reasonCache) set(uid types.UID, container string, w waiting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pods[uid] == nil {
		r.pods[uid] = map[string]waiting{}
	}
	r.pods[uid][container] = w
}

func (r *reasonCache) get(uid types.UID, container string) (waiting, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	w, ok := r.pods[uid][container]
	return w, ok
}

func (r *reasonCache) clear(uid types.UID, container string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods[uid], container)
	if len(r.pods[uid]) == 0 {
		delete(r.pods, uid)
	}
}

func (r *reasonCache) forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, uid)
}
