// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsource

import (
	"fmt"
	"maps"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// store is what the reflector writes into: the newest known version of every pod, by UID.
type store struct {
	// changed holds one token while there is something the reader has not seen.
	changed chan struct{}

	mu     sync.Mutex
	pods   snapshot
	synced bool
}

var _ cache.ReflectorStore = (*store)(nil)

func newStore() *store {
	return &store{changed: make(chan struct{}, 1), pods: snapshot{}}
}

// read returns the pods of this moment and whether a complete list was seen. The map is the caller's, the pods are not.
func (s *store) read() (pods snapshot, synced bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.pods), s.synced
}

// Add takes a new pod.
func (s *store) Add(obj any) error { return s.put(obj) }

// Update takes a new version of a pod.
func (s *store) Update(obj any) error { return s.put(obj) }

func (s *store) put(obj any) error {
	pod, err := podOf(obj)
	if err != nil {
		return err
	}
	s.change(func() { s.pods[pod.UID] = pod })
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
	s.change(func() { delete(s.pods, pod.UID) })
	return nil
}

// Replace takes a complete list. Only this makes the source synced, and only this or Delete removes a pod.
func (s *store) Replace(list []any, _ string) error {
	pods := make(snapshot, len(list))
	for _, obj := range list {
		pod, err := podOf(obj)
		if err != nil {
			return err
		}
		pods[pod.UID] = pod
	}
	s.change(func() { s.pods, s.synced = pods, true })
	return nil
}

// Resync does nothing: the reader compares whole snapshots.
func (s *store) Resync() error { return nil }

// change does f under the lock and wakes the reader.
func (s *store) change(f func()) {
	s.mu.Lock()
	f()
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
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
