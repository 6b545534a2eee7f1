// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"sync"
	"time"
)

// Run writes statuses until ctx ends. It returns when no call to the Sink is under way any more.
func (m *Manager) Run(ctx context.Context) {
	var calls sync.WaitGroup
	defer calls.Wait()
	slots := make(chan struct{}, m.parallel)
	pass := m.clock.NewTicker(passPeriod)
	defer pass.Stop()
	timer := m.clock.NewTimer(passPeriod)
	defer timer.Stop()
	for {
		for e := m.next(slots); e != nil; e = m.next(slots) {
			calls.Go(func() {
				m.sync(ctx, e)
				<-slots
				m.poke()
			})
		}
		timer.Reset(m.untilDue())
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
		case <-timer.C():
			m.enqueueDue()
		case <-pass.C():
			m.enqueueDiffering()
		}
	}
}

// next takes a slot and the pod whose turn it is. It returns nil if there is none of either.
func (m *Manager) next(slots chan struct{}) *entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.ready) > 0 {
		e := m.pods[m.ready[0]]
		if e == nil || !e.queued {
			m.ready = m.ready[1:]
			continue
		}
		select {
		case slots <- struct{}{}:
		default:
			return nil
		}
		m.ready = m.ready[1:]
		e.queued, e.syncing, e.again = false, true, false
		e.due = time.Time{}
		return e
	}
	return nil
}

// enqueue gives a pod its turn: now, or after the sync under way, or after the pause that follows a failure.
func (m *Manager) enqueue(e *entry) {
	switch {
	case e.gone || e.queued:
	case e.syncing:
		e.again = true
	case e.failures > 0 && !e.due.IsZero():
	default:
		e.queued, e.due = true, time.Time{}
		m.ready = append(m.ready, e.uid)
		m.poke()
	}
}

// plan gives a pod its turn after a while, unless it has one earlier.
func (m *Manager) plan(e *entry, after time.Duration) {
	at := m.clock.Now().Add(after)
	if e.queued || !e.due.IsZero() && e.due.Before(at) {
		return
	}
	e.due = at
}

// untilDue returns how long it is until the first pod that has a planned turn.
func (m *Manager) untilDue() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	wait := passPeriod
	now := m.clock.Now()
	for _, e := range m.pods {
		if !e.due.IsZero() {
			wait = min(wait, max(e.due.Sub(now), 0))
		}
	}
	return wait
}

// enqueueDue gives their turn to the pods whose planned time has come.
func (m *Manager) enqueueDue() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	for _, e := range m.pods {
		if !e.due.IsZero() && !e.due.After(now) {
			e.due = time.Time{}
			m.enqueue(e)
		}
	}
}

// enqueueDiffering is the full pass: it gives a turn to every pod of which the API does not have the newest status or
// has it otherwise, or whose object may be deleted.
func (m *Manager) enqueueDiffering() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.pods {
		if e.version > e.sent || e.withheld || e.mayDelete() || e.differs() {
			m.enqueue(e)
		}
	}
}

// poke wakes Run.
func (m *Manager) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}
