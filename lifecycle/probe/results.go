// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// Update says that the result of a probe changed.
type Update struct {
	UID         types.UID
	Container   string
	ContainerID string
	Kind        podrules.ProbeKind
	Result      podrules.ProbeResult
}

// results are what is published. An entry lives as long as the worker that made it knows the container.
type results struct {
	mu sync.RWMutex
	by map[resultKey]podrules.ProbeResult
}

type resultKey struct {
	kind podrules.ProbeKind
	id   string
}

func (r *results) get(kind podrules.ProbeKind, id string) podrules.ProbeResult {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.by[resultKey{kind, id}]
}

// set returns whether the result is another than before.
func (r *results) set(kind podrules.ProbeKind, id string, result podrules.ProbeResult) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := resultKey{kind, id}
	if r.by[key] == result {
		return false
	}
	r.by[key] = result
	return true
}

func (r *results) drop(kind podrules.ProbeKind, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.by, resultKey{kind, id})
}
