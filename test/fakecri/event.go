// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package fakecri

import "time"

// EventKind says what happened in the runtime.
type EventKind string

// What Options.Observe is told.
const (
	// CallArrived is a call of Event.Method, whatever becomes of it.
	CallArrived EventKind = "call"
	// SandboxMade is a new sandbox.
	SandboxMade EventKind = "sandbox"
	// ContainerMade is a new record of a container, ContainerStarted that its process lives from now on.
	ContainerMade    EventKind = "created"
	ContainerStarted EventKind = "started"
	// Signalled is a signal to a live container, whose name is Event.Signal.
	Signalled EventKind = "signal"
	// ContainerEnded is the end of a process, with Event.ExitCode.
	ContainerEnded EventKind = "ended"
	// ContainerRemoved is the end of a record.
	ContainerRemoved EventKind = "removed"
)

// Event is something that happened.
type Event struct {
	Kind EventKind
	Selector
	// At is when it happened, which may be before it was noticed.
	At time.Time
	// Method and Grace are those of a call; Grace is the timeout of StopContainer.
	Method   string
	Grace    time.Duration
	Signal   string
	ExitCode int32
}

// tell passes an event on. The lock is held.
func (r *Runtime) tell(e Event) {
	if r.observe == nil {
		return
	}
	if e.At.IsZero() {
		e.At = r.clock.Now()
	}
	r.observe(e)
}

// tellOf passes on what happened to a container. The lock is held.
func (r *Runtime) tellOf(c *container, e Event) {
	e.Selector = c.selector()
	r.tell(e)
}

func (c *container) selector() Selector {
	return Selector{UID: c.uid(), Container: c.name(), ID: c.id, Image: c.config.GetImage().GetImage()}
}
