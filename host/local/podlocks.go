// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// podLocks are one lock for each pod. Locks that pods share by a hash would let one pod, whose files take minutes to be removed,
// hold up others.
type podLocks struct {
	mu   sync.Mutex
	pods map[types.UID]*podLock
}

// podLock exists as long as somebody holds it or waits for it.
type podLock struct {
	sync.Mutex
	users int // guarded by the lock of podLocks
}

// lock waits for the lock of a pod and returns what gives it back.
func (l *podLocks) lock(uid types.UID) (unlock func()) {
	l.mu.Lock()
	pod := l.pods[uid]
	if pod == nil {
		if l.pods == nil {
			l.pods = map[types.UID]*podLock{}
		}
		pod = &podLock{}
		l.pods[uid] = pod
	}
	pod.users++
	l.mu.Unlock()
	pod.Lock()
	return func() {
		pod.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if pod.users--; pod.users == 0 {
			delete(l.pods, uid)
		}
	}
}
