// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package fakecri

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Selector chooses containers and calls. Empty fields match everything.
type Selector struct {
	UID       types.UID
	Container string // name
	ID        string // of the container or sandbox
	Image     string
}

func (s Selector) matches(t Selector) bool {
	return (s.UID == "" || s.UID == t.UID) && (s.Container == "" || s.Container == t.Container) &&
		(s.ID == "" || s.ID == t.ID) && (s.Image == "" || s.Image == t.Image)
}

// Behaviour is what a container does. The zero value runs until it is stopped and then ends at once with 143.
type Behaviour struct {
	// Exits makes the container end by itself with ExitCode and ExitReason ("Completed" or "Error" if empty) after
	// ExitAfter.
	Exits      bool
	ExitAfter  time.Duration
	ExitCode   int32
	ExitReason string
	// StartError makes StartContainer fail with this text; the container ends with 128, StartError.
	StartError string
	OnTERM     TERM
}

// TERM is how a container takes the stop signal.
type TERM struct {
	// Ignore makes it live until it is killed.
	Ignore bool
	// After is how long it takes to end.
	After time.Duration
	// ExitCode is 143 if nil.
	ExitCode *int32
}

type behaviourRule struct {
	selector Selector
	steps    []Behaviour
	used     int
}

// Behave says what the selected containers do. Each one created takes the next of the behaviours, and the last is for
// all that follow. Of several rules that match, the newest counts.
func (r *Runtime) Behave(s Selector, steps ...Behaviour) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.behaviours = append(r.behaviours, behaviourRule{selector: s, steps: steps})
}

// behaviour takes the next behaviour for a new container. The lock is held.
func (r *Runtime) behaviour(t Selector) Behaviour {
	for i := len(r.behaviours) - 1; i >= 0; i-- {
		rule := &r.behaviours[i]
		if !rule.selector.matches(t) || len(rule.steps) == 0 {
			continue
		}
		step := rule.steps[min(rule.used, len(rule.steps)-1)]
		rule.used++
		return step
	}
	return Behaviour{}
}
