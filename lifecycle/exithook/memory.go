// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package exithook

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// memory is what this process knows. It may be lost: what the runtime and the host have on record stands behind it, and a
// process that starts anew repeats no more than an event.
type memory struct {
	mu   sync.Mutex
	pods map[types.UID]*podMemory
}

type podMemory struct {
	completed bool
	// hooks are by the id of the container that ended.
	hooks map[string]*progress
}

// progress is how far one hook has come. It is only read and changed through memory.
type progress struct {
	told, done bool
	failures   int
}

func newMemory() *memory { return &memory{pods: map[types.UID]*podMemory{}} }

// pod returns what is known of a pod. The lock is held.
func (m *memory) pod(uid types.UID) *podMemory {
	p := m.pods[uid]
	if p == nil {
		p = &podMemory{hooks: map[string]*progress{}}
		m.pods[uid] = p
	}
	return p
}

// hook returns how far a hook has come. The lock is held.
func (m *memory) hook(uid types.UID, id string) *progress {
	p := m.pod(uid)
	if p.hooks[id] == nil {
		p.hooks[id] = &progress{}
	}
	return p.hooks[id]
}

func (m *memory) complete(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pod(uid).completed = true
}

func (m *memory) completed(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pods[uid]
	return p != nil && p.completed
}

// end notes that the hook is over, in whatever way, and says whether that is news.
func (m *memory) end(uid types.UID, id string) (news bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.hook(uid, id)
	news = !h.done
	h.done = true
	return news
}

func (m *memory) ended(uid types.UID, id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hook(uid, id).done
}

// tell says whether it is still to be told that the hook runs, and notes that it was.
func (m *memory) tell(uid types.UID, id string) (news bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.hook(uid, id)
	news = !h.told
	h.told = true
	return news
}

// fail counts how often the hook could not be begun.
func (m *memory) fail(uid types.UID, id string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.hook(uid, id)
	h.failures++
	return h.failures
}

func (m *memory) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pods, uid)
}
