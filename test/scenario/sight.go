// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import "time"

// What a node can fail to see. Each is the Side of the events of its beginning and end.
const (
	blindAPI  = "api"
	blindHost = "host"
	blindNode = "node"
)

// span is a time in which something could not be seen. One that lasts has no end.
type span struct{ from, to time.Duration }

// sight is when a node could not see one side of the world, for any number of causes at once.
type sight struct {
	causes map[string]bool
	spans  []span
}

func (s *sight) lose(cause string, at time.Duration) {
	if s.causes == nil {
		s.causes = map[string]bool{}
	}
	if len(s.causes) == 0 {
		s.spans = append(s.spans, span{from: at, to: never})
	}
	s.causes[cause] = true
}

func (s *sight) regain(cause string, at time.Duration) {
	if !s.causes[cause] {
		return
	}
	delete(s.causes, cause)
	if len(s.causes) == 0 {
		s.spans[len(s.spans)-1].to = at
	}
}

// never is the end of what lasts.
const never = time.Duration(1<<63 - 1)

// regained is when a thing that happens at a time is seen: at once, or when sight is regained, or never so far.
func (s *sight) regained(at time.Duration) time.Duration {
	for _, one := range s.spans {
		if one.from <= at && at < one.to {
			return one.to
		}
	}
	return at
}

// interrupted is the end of the first loss of sight that begins between two times, the first of them if none does.
func (s *sight) interrupted(from, to time.Duration) time.Duration {
	for _, one := range s.spans {
		if from < one.from && one.from < to {
			return one.to
		}
	}
	return from
}

// losses counts how often sight had been lost by a time.
func (s *sight) losses(by time.Duration) (n int) {
	for _, one := range s.spans {
		if one.from <= by {
			n++
		}
	}
	return n
}

// lost says whether sight was lost at any moment between two times.
func (s *sight) lost(from, to time.Duration) bool {
	for _, one := range s.spans {
		if one.from <= to && from <= one.to {
			return true
		}
	}
	return false
}

// blind notes that a node cannot see one side of the world, and why.
func (w *World) blind(side, cause, text string) {
	w.trace.add(time.Now(), Event{Text: text, Side: side, Cause: cause, Blind: true})
}

// sees notes that a cause of blindness is over.
func (w *World) sees(side, cause, text string) {
	w.trace.add(time.Now(), Event{Text: text, Side: side, Cause: cause})
}
