// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"strings"
)

// slack is how late an event may be that is expected at one moment.
const slack = 1.5

// match returns what of the expected trace is not there.
func match(patterns []Pattern, events []Event) []string {
	var bad []string
	next := 0
	for _, p := range patterns {
		if p.Count >= 0 {
			if n := count(p, events); n != p.Count {
				bad = append(bad, fmt.Sprintf("%q is there %d times", p.Line, n))
			}
			continue
		}
		found := find(p, events, next)
		if found < 0 {
			bad = append(bad, fmt.Sprintf("%q is not there behind what is expected before it", p.Line))
			continue
		}
		next = found + 1
	}
	return bad
}

func count(p Pattern, events []Event) (n int) {
	for _, e := range events {
		if glob(p.Glob, e.Text) {
			n++
		}
	}
	return n
}

func find(p Pattern, events []Event, from int) int {
	for i := from; i < len(events); i++ {
		at := events[i].At.Seconds()
		inTime := !p.Timed || (at >= p.From.Seconds() && at <= max(p.To.Seconds(), p.From.Seconds())+slack)
		if inTime && glob(p.Glob, events[i].Text) {
			return i
		}
	}
	return -1
}

// glob says whether the text is the pattern, in which * is any text.
func glob(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	if !strings.HasPrefix(text, parts[0]) {
		return false
	}
	text = text[len(parts[0]):]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return strings.HasSuffix(text, parts[len(parts)-1])
}
