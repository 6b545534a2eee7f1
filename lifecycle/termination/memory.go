// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package termination

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// memory is what has been done about each container that is being killed, so that a call that follows an error does not
// do it again. It may be lost: the host and the runtime know by themselves what is done, so a process that starts anew
// repeats no more than an event.
type memory struct {
	mu   sync.Mutex
	pods map[types.UID]map[string]*killing
}

// killing is the state of one container id. It is only read and changed through memory.
type killing struct {
	// own is the earliest deadline that the container was given by itself, zero for none.
	own time.Time
	// hookDone says that the hook ended, in whatever way. hookWarned says that its failure was reported.
	hookDone   bool
	hookWarned bool
}

func newMemory() *memory { return &memory{pods: map[types.UID]map[string]*killing{}} }

// begin notes that the container is to be gone. It returns by when, and whether this is the first time.
func (m *memory) begin(uid types.UID, id string, b budget) (effective time.Time, first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pods[uid] == nil {
		m.pods[uid] = map[string]*killing{}
	}
	k, known := m.pods[uid][id]
	if !known {
		k = &killing{}
		m.pods[uid][id] = k
	}
	k.own = earlier(k.own, b.own)
	return earlier(k.own, b.pods), !known
}

func (m *memory) hookDone(uid types.UID, id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.pods[uid][id]
	return k != nil && k.hookDone
}

func (m *memory) setHookDone(uid types.UID, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.pods[uid][id]; k != nil {
		k.hookDone = true
	}
}

// warnHook says whether the hook's failure is still to be reported, and notes that it was.
func (m *memory) warnHook(uid types.UID, id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.pods[uid][id]
	if k == nil || k.hookWarned {
		return false
	}
	k.hookWarned = true
	return true
}

func (m *memory) forgetContainer(uid types.UID, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pods[uid], id)
	if len(m.pods[uid]) == 0 {
		delete(m.pods, uid)
	}
}

func (m *memory) forgetPod(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pods, uid)
}
