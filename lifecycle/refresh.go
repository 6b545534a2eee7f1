// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/lifecycle/podworker"
)

// refreshes are the pods whose workers are to be woken because something they refer to changed.
type refreshes struct {
	// wanted holds a value while there may be one.
	wanted chan struct{}

	mu   sync.Mutex
	pods map[types.UID]struct{}
}

func newRefreshes() *refreshes {
	return &refreshes{wanted: make(chan struct{}, 1), pods: map[types.UID]struct{}{}}
}

// take returns the pods and forgets them.
func (r *refreshes) take() []types.UID {
	r.mu.Lock()
	defer r.mu.Unlock()
	pods := slices.Collect(maps.Keys(r.pods))
	clear(r.pods)
	return pods
}

// Refresh tells that objects changed which the pods refer to, or tokens of theirs. Their workers are woken. It never blocks.
func (e *Engine) Refresh(pods []types.UID) {
	e.refresh.mu.Lock()
	for _, uid := range pods {
		e.refresh.pods[uid] = struct{}{}
	}
	e.refresh.mu.Unlock()
	select {
	case e.refresh.wanted <- struct{}{}:
	default:
	}
}

func (e *Engine) handleRefreshes() {
	for _, uid := range e.refresh.take() {
		if pod, ok := e.pod(uid); ok && !e.isRejected(uid) {
			e.update(podworker.Sync, pod)
		}
	}
}
