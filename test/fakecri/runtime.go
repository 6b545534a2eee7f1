// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package fakecri

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/cri"
)

// DefaultIdentity is the owner of everything unless Options say otherwise.
var DefaultIdentity = cri.Identity{Cluster: "test-cluster", Node: "test-node"}

// Options say how a Runtime is made. The zero value is good.
type Options struct {
	// Clock is the host's clock; the real one (which is fake within testing/synctest) if nil.
	Clock clock.WithTicker
	// Skew is added to every time the runtime reports.
	Skew time.Duration
	// Identity is what Client lists and Seed labels with, DefaultIdentity if empty.
	Identity cri.Identity
	// Tolerate are violations that do not fail the test.
	Tolerate []ViolationKind
	// Observe is told what happens, if it is not nil. It is called with the Runtime locked and must not call it back.
	Observe func(Event)
}

// Runtime is a container runtime in memory.
type Runtime struct {
	clock    clock.WithTicker
	skew     time.Duration
	identity cri.Identity
	observe  func(Event)

	mu         sync.Mutex
	serial     int
	sandboxes  map[string]*sandbox
	containers map[string]*container
	images     map[string]string // name -> id
	attempts   map[attemptKey]uint32
	steps      []clockStep // oldest first
	behaviours []behaviourRule
	exec       ExecFunc
	conditions map[string]string // false conditions of Status: type -> message
	faults     []*Injection
	calls      []Call
	violations []Violation
	down       bool
	inflight   map[int]context.CancelCauseFunc
	changed    chan struct{} // closed and replaced at each change
}

// New returns an empty Runtime.
func New(o Options) *Runtime {
	r := &Runtime{
		clock:      o.Clock,
		skew:       o.Skew,
		identity:   o.Identity,
		observe:    o.Observe,
		sandboxes:  map[string]*sandbox{},
		containers: map[string]*container{},
		images:     map[string]string{},
		attempts:   map[attemptKey]uint32{},
		conditions: map[string]string{},
		inflight:   map[int]context.CancelCauseFunc{},
		changed:    make(chan struct{}),
	}
	if r.clock == nil {
		r.clock = clock.RealClock{}
	}
	if r.identity == (cri.Identity{}) {
		r.identity = DefaultIdentity
	}
	return r
}

// Start returns an empty Runtime and fails the test at its end for every violation that is not tolerated.
func Start(t testing.TB, o Options) *Runtime {
	t.Helper()
	r := New(o)
	t.Cleanup(func() {
		for _, v := range r.Violations() {
			if !slices.Contains(o.Tolerate, v.Kind) {
				t.Errorf("violation: %s", v)
			}
		}
	})
	return r
}

// ViolationKind is something that a node must never do.
type ViolationKind string

const (
	// DoubleRunning is the start of a container while another of the same pod UID and name lives (or, being in state
	// UNKNOWN, may live).
	DoubleRunning ViolationKind = "DoubleRunning"
	// KilledBySandbox is a live container killed because its sandbox was stopped or removed: it got no grace period.
	KilledBySandbox ViolationKind = "KilledBySandbox"
	// RemovedRunning is a live container killed because its record was removed.
	RemovedRunning ViolationKind = "RemovedRunning"
)

// Violation is one occurrence.
type Violation struct {
	Kind ViolationKind
	Text string
}

// String returns the kind and what happened.
func (v Violation) String() string { return string(v.Kind) + ": " + v.Text }

// Violations returns what happened so far.
func (r *Runtime) Violations() []Violation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.violations)
}

// SetCondition makes the condition (RuntimeReady, NetworkReady) false with that message, or true if it is empty.
func (r *Runtime) SetCondition(name, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if message == "" {
		delete(r.conditions, name)
		return
	}
	r.conditions[name] = message
}

// Wait returns nil as soon as cond holds, which is asked after each change, or the error of ctx.
func (r *Runtime) Wait(ctx context.Context, cond func() bool) error {
	for {
		r.mu.Lock()
		r.settle()
		changed, next := r.changed, r.nextEvent()
		r.mu.Unlock()
		if cond() {
			return nil
		}
		if err := r.pause(ctx, next, changed); err != nil {
			return err
		}
	}
}

// pause waits for the time (zero is never), for changed, or for the end of ctx, whose error it returns.
func (r *Runtime) pause(ctx context.Context, until time.Time, changed <-chan struct{}) error {
	var fire <-chan time.Time
	if !until.IsZero() {
		timer := r.clock.NewTimer(until.Sub(r.clock.Now()))
		defer timer.Stop()
		fire = timer.C()
		if !until.After(r.clock.Now()) { // a fake clock fires only when it is stepped
			return nil
		}
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-fire:
	case <-changed:
	}
	return nil
}

// wake tells waiters that something changed. The lock is held.
func (r *Runtime) wake() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// nextID returns a new id that looks like containerd's. The lock is held.
func (r *Runtime) nextID(kind string) string {
	r.serial++
	digits := []byte(strings.Repeat("0", 64))
	copy(digits, kind)
	for i, n := len(digits)-1, r.serial; n > 0; i, n = i-1, n/16 {
		digits[i] = "0123456789abcdef"[n%16]
	}
	return string(digits)
}

// reported returns a time as the host's clock tells it, in the CRI's unit.
func (r *Runtime) reported(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	skew := r.skew
	for _, step := range r.steps {
		if !t.Before(step.at) {
			skew = step.skew
		}
	}
	return t.Add(skew).UnixNano()
}
