// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsource

import (
	"fmt"
	"maps"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// store is what the reflector writes into: the newest known version of every pod, by UID.
type store struct {
	// changed holds one token while there is something the reader has not seen.
	changed chan struct{}
	// doubt holds one token while there may be something in doubtful.
	doubt chan struct{}

	mu   sync.Mutex
	pods snapshot
	// doubtful are pods that only a list says are gone, together with others. They count as there until that is confirmed.
	doubtful snapshot
	synced   bool
}

var _ cache.ReflectorStore = (*store)(nil)

func newStore() *store {
	return &store{
		changed: make(chan struct{}, 1), doubt: make(chan struct{}, 1), pods: snapshot{}, doubtful: snapshot{},
	}
}

// read returns the pods of this moment and whether a complete list was seen. The map is the caller's, the pods are not.
func (s *store) read() (pods snapshot, synced bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pods = maps.Clone(s.doubtful)
	maps.Copy(pods, s.pods)
	return pods, s.synced
}

// doubts returns the pods whose absence is to be confirmed.
func (s *store) doubts() snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.doubtful)
}

// confirm takes a doubtful pod for gone.
func (s *store) confirm(uid types.UID) { s.change(func() { delete(s.doubtful, uid) }) }

// Add takes a new pod.
func (s *store) Add(obj any) error { return s.put(obj) }

// Update takes a new version of a pod.
func (s *store) Update(obj any) error { return s.put(obj) }

func (s *store) put(obj any) error {
	pod, err := podOf(obj)
	if err != nil {
		return err
	}
	s.change(func() {
		s.pods[pod.UID] = pod
		delete(s.doubtful, pod.UID)
	})
	return nil
}

// Delete drops the pod of that UID; another one of the same name stays.
func (s *store) Delete(obj any) error {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	pod, err := podOf(obj)
	if err != nil {
		return err
	}
	s.change(func() {
		delete(s.pods, pod.UID)
		delete(s.doubtful, pod.UID)
	})
	return nil
}

// Replace takes a complete list. Only this makes the source synced, and only this or Delete removes a pod. If more than one
// pod is missing in it, each is asked for before it counts as gone: a list may be wrong, for instance that of an API server
// whose storage is being restored.
func (s *store) Replace(list []any, _ string) error {
	pods := make(snapshot, len(list))
	for _, obj := range list {
		pod, err := podOf(obj)
		if err != nil {
			return err
		}
		pods[pod.UID] = pod
	}
	s.change(func() {
		missing := snapshot{}
		for uid, pod := range s.pods {
			if _, ok := pods[uid]; !ok {
				missing[uid] = pod
			}
		}
		for uid := range pods {
			delete(s.doubtful, uid)
		}
		if len(missing) > 1 {
			maps.Copy(s.doubtful, missing)
			signal(s.doubt)
		}
		s.pods, s.synced = pods, true
	})
	return nil
}

// Resync does nothing: the reader compares whole snapshots.
func (s *store) Resync() error { return nil }

// change does f under the lock and wakes the reader.
func (s *store) change(f func()) {
	s.mu.Lock()
	f()
	s.mu.Unlock()
	signal(s.changed)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// podOf checks what the reflector handed over and drops what nobody here reads: the record of field managers is often
// as large as the rest of the pod.
func podOf(obj any) (*v1.Pod, error) {
	pod, ok := obj.(*v1.Pod)
	if !ok {
		return nil, fmt.Errorf("watching pods: got a %T", obj)
	}
	if pod.UID == "" {
		return nil, fmt.Errorf("watching pods: pod %s/%s has no UID", pod.Namespace, pod.Name)
	}
	pod.ManagedFields = nil
	return pod, nil
}
