// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package pleg

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/cri"
)

// cache holds the newest observation of each pod, and lets readers wait for newer ones.
type cache struct {
	mu      sync.Mutex
	entries map[types.UID]*entry
	// pending are pods that are known to have changed and are not inspected yet: a list newer than their entry says
	// nothing of what they are.
	pending map[types.UID]bool
	// listed is when the last complete list was begun. What has no entry was absent then.
	listed  time.Time
	waiters map[types.UID]chan struct{}
}

// entry is what is known of one pod.
type entry struct {
	status *cri.PodStatus // the last good observation, never nil
	err    error          // of the last inspection
	seen   time.Time      // when the newest observation was begun, be it good, failed or without a change
	// absent says that a list of the pod alone had nothing of it. The next complete list makes the entry superfluous.
	absent bool
}

func newCache() *cache {
	return &cache{
		entries: map[types.UID]*entry{},
		pending: map[types.UID]bool{},
		waiters: map[types.UID]chan struct{}{},
	}
}

func (c *cache) get(uid types.UID) (*cri.PodStatus, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read(uid)
}

// read returns the entry's content. The lock is held.
func (c *cache) read(uid types.UID) (*cri.PodStatus, error) {
	if e := c.entries[uid]; e != nil {
		return e.status, e.err
	}
	return &cri.PodStatus{UID: uid, ObservedAt: c.listed}, nil
}

// newerThan returns what get does if the pod was observed after t, and otherwise a channel that is closed when it is worth
// asking again.
func (c *cache) newerThan(uid types.UID, t time.Time) (*cri.PodStatus, <-chan struct{}, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.newer(uid, t) {
		status, err := c.read(uid)
		return status, nil, err
	}
	return nil, c.waiter(uid), nil
}

// changed returns a channel that is closed when it is worth asking again.
func (c *cache) changed(uid types.UID) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiter(uid)
}

// waiter returns the channel that notify closes. The lock is held.
func (c *cache) waiter(uid types.UID) chan struct{} {
	changed := c.waiters[uid]
	if changed == nil {
		changed = make(chan struct{})
		c.waiters[uid] = changed
	}
	return changed
}

// newer says that the pod was observed after t. The lock is held.
func (c *cache) newer(uid types.UID, t time.Time) bool {
	if e := c.entries[uid]; e != nil {
		return e.seen.After(t)
	}
	return !c.pending[uid] && c.listed.After(t)
}

// begin notes that an inspection of the pod is on its way.
func (c *cache) begin(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending[uid] = true
}

// end notes that it is over without a result.
func (c *cache) end(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, uid)
	c.notify(uid)
}

// set stores a good observation. One that has no IPs because the sandbox stopped keeps those of the one before: the API
// expects an ended pod to keep its address.
func (c *cache) set(status *cri.PodStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.entries[status.UID]
	if before != nil && len(status.IPs) == 0 && !anyReady(status) {
		status.IPs = before.status.IPs
	}
	c.entries[status.UID] = &entry{status: status, seen: status.ObservedAt}
	delete(c.pending, status.UID)
	c.notify(status.UID)
}

func anyReady(status *cri.PodStatus) bool {
	for i := range status.Sandboxes {
		if status.Sandboxes[i].Ready {
			return true
		}
	}
	return false
}

// fail stores that an inspection begun at that time failed.
func (c *cache) fail(uid types.UID, at time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	status := &cri.PodStatus{UID: uid}
	if before := c.entries[uid]; before != nil {
		status = before.status
	}
	c.entries[uid] = &entry{status: status, err: err, seen: at}
	delete(c.pending, uid)
	c.notify(uid)
}

// confirm stores that a list begun at that time showed no change of the pod.
func (c *cache) confirm(uid types.UID, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, uid)
	if e := c.entries[uid]; e != nil && at.After(e.seen) {
		e.seen = at
	}
	c.notify(uid)
}

// remove forgets a pod that was absent from a complete list.
func (c *cache) remove(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, uid)
	delete(c.pending, uid)
	c.notify(uid)
}

// absent stores that a list of the pod alone, begun at that time, had nothing of it.
func (c *cache) absent(uid types.UID, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries[uid] = &entry{status: &cri.PodStatus{UID: uid, ObservedAt: at}, seen: at, absent: true}
	delete(c.pending, uid)
	c.notify(uid)
}

// absentSince returns when the newest list was begun that had nothing of the pod, zero if there is an observation of it.
func (c *cache) absentSince(uid types.UID) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e := c.entries[uid]; {
	case e == nil:
		return c.listed
	case e.absent:
		return e.seen
	default:
		return time.Time{}
	}
}

// complete notes that a list begun at that time is worked in: what has no entry and is not pending was absent.
func (c *cache) complete(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listed = at
	for uid, e := range c.entries {
		if e.absent && e.seen.Before(at) {
			delete(c.entries, uid)
		}
	}
	for uid := range c.waiters {
		c.notify(uid)
	}
}

// notify wakes those who wait for the pod. The lock is held.
func (c *cache) notify(uid types.UID) {
	if changed := c.waiters[uid]; changed != nil {
		close(changed)
		delete(c.waiters, uid)
	}
}
