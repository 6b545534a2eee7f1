// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// DefaultParallelStarts is how many new pods are started at once on one host if nothing else is asked for. Measured with
	// containerd, more at once make no pod of a burst ready earlier and most of them later.
	DefaultParallelStarts = 8
	// startBound is how long a start counts for certain. One that takes longer goes on, but no longer in the way of others; and of those
	// only one stops to count within that time. So one that hangs is in nobody's way, and where all take longer, because the host has
	// more to do than it can, they do not all come on top of each other.
	startBound = 15 * time.Second
)

// gate lets a bounded number of new pods make their sandbox or start a container at the same time. Who waits to go on with
// a pod that has its sandbox comes before those that wait for theirs, so that the pods of a burst get ready one
// after the other; within each of the two, first come is first served.
type gate struct {
	clock clock.Clock
	size  int

	mu sync.Mutex
	// inside holds when each of those inside may stop to count, excused when the last one did that was still inside.
	inside  map[*turn]time.Time
	excused time.Time
	// begun and fresh are those who wait, with and without a sandbox.
	begun, fresh []*turn
}

// turn is one new pod's part in the gate. The nil turn of a pod that is not new never waits.
type turn struct {
	gate *gate
	// called is closed when the turn is let in. It is nil when it does not wait.
	called chan struct{}
	begun  bool
}

func newGate(c clock.Clock, size int) *gate {
	if size <= 0 {
		size = DefaultParallelStarts
	}
	return &gate{clock: c, size: size, inside: map[*turn]time.Time{}}
}

func (g *gate) newTurn() *turn { return &turn{gate: g} }

// enter waits until the pod may start something, or ctx ends. Every enter that succeeded is followed by a leave.
func (t *turn) enter(ctx context.Context) error {
	if t == nil {
		return nil
	}
	g := t.gate
	called := g.queue(t)
	for {
		bound, stop := g.nextBound()
		select {
		case <-called:
			stop()
			return nil
		case <-ctx.Done():
			stop()
			t.leave()
			return ctx.Err()
		case <-bound:
			g.admit()
		}
	}
}

// leave makes room for the next. It may be called by who is not inside.
func (t *turn) leave() {
	if t == nil {
		return
	}
	g := t.gate
	g.mu.Lock()
	delete(g.inside, t)
	isMe := func(other *turn) bool { return other == t }
	g.begun, g.fresh = slices.DeleteFunc(g.begun, isMe), slices.DeleteFunc(g.fresh, isMe)
	g.mu.Unlock()
	g.admit()
}

// queue lets the turn wait and returns what is closed when it is let in.
func (g *gate) queue(t *turn) <-chan struct{} {
	g.mu.Lock()
	t.called = make(chan struct{})
	called := t.called
	if t.begun {
		g.begun = append(g.begun, t)
	} else {
		g.fresh = append(g.fresh, t)
	}
	t.begun = true
	g.mu.Unlock()
	g.admit()
	return called
}

// admit lets in as many as there is room for.
func (g *gate) admit() {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock.Now()
	if oldest, until := g.oldest(); oldest != nil && !now.Before(until) {
		delete(g.inside, oldest)
		g.excused = now
	}
	for len(g.inside) < g.size {
		var next *turn
		switch {
		case len(g.begun) > 0:
			next, g.begun = g.begun[0], g.begun[1:]
		case len(g.fresh) > 0:
			next, g.fresh = g.fresh[0], g.fresh[1:]
		default:
			return
		}
		g.inside[next] = now.Add(startBound)
		close(next.called)
	}
}

// nextBound returns a channel that tells when the next one inside stops to count. stop ends the timer behind it.
func (g *gate) nextBound() (bound <-chan time.Time, stop func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	oldest, until := g.oldest()
	if oldest == nil {
		return nil, func() {}
	}
	timer := g.clock.NewTimer(until.Sub(g.clock.Now()))
	return timer.C(), func() { timer.Stop() }
}

// oldest is the one inside that is the next to stop to count, and when that is; nil if there is none.
func (g *gate) oldest() (oldest *turn, until time.Time) {
	for t, at := range g.inside {
		if oldest == nil || at.Before(until) {
			oldest, until = t, at
		}
	}
	if soonest := g.excused.Add(startBound); until.Before(soonest) {
		until = soonest
	}
	return oldest, until
}
