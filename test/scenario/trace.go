// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Event is one line of a trace.
type Event struct {
	// At is the time since the world began.
	At time.Duration
	// Text says what happened, for a reader and for the patterns of a case.
	Text string
	// Kind is the first word of Text.
	Kind string
	// UID, Container and ID name what it happened to, as far as there is such a thing.
	UID       types.UID
	Container string
	ID        string
	// Detail is the method of a call, the name of a signal, or the kind of a hook.
	Detail string
	// Grace is that of a StopContainer.
	Grace time.Duration
	// Code is that of an exit.
	Code int32
	// Image is that of a container that was made.
	Image string
	// Side is what the node cannot see from now on if Blind is set, and sees again otherwise, as far as Cause is concerned.
	Side, Cause string
	Blind       bool
}

// Trace is everything that happened in a world.
type Trace struct {
	begin time.Time

	mu       sync.Mutex
	events   []Event
	watchers []func(Event)
}

// add notes an event at its time, which may be in the past.
func (t *Trace) add(at time.Time, e Event) {
	e.At = at.Sub(t.begin)
	e.Kind, _, _ = strings.Cut(e.Text, " ")
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, e)
	for _, w := range t.watchers {
		w(e)
	}
}

// watch calls f for every event from now on. It is called with the trace locked.
func (t *Trace) watch(f func(Event)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watchers = append(t.watchers, f)
}

// Events returns what happened so far, ordered by time.
func (t *Trace) Events() []Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := slices.Clone(t.events)
	slices.SortStableFunc(out, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return out
}

// String returns one line for each event.
func (t *Trace) String() string {
	var b strings.Builder
	for _, e := range t.Events() {
		fmt.Fprintf(&b, "%10.3fs  %s\n", e.At.Seconds(), e.Text)
	}
	return b.String()
}
