// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"time"

	"k8s.io/utils/ptr"
)

// Parts of the grace budget: what a container always has between its signal and its kill, what a pod gets once whose
// deadline passed unseen, how long a node may need to learn of what it could not see, and rounding to seconds.
const (
	leastStop = 2 * time.Second
	lateStop  = 10 * time.Second
	learning  = 11 * time.Second
	rounding  = 1500 * time.Millisecond
)

// asked is one deletion that was asked for.
type asked struct{ at, grace time.Duration }

// stop checks the budget of I4 at a StopContainer: a container gets no more than was asked for, its pod ends at its
// deadline, and what was once given only shrinks. A node that could not see what it had to do may be late, once.
func (g *Guard) stop(e Event) {
	p, c := g.pod(e.UID), g.container(e)
	before, last := c.killBy, c.stoppedAt
	c.killBy, c.stoppedAt = e.At+e.Grace, e.At
	if e.Grace <= leastStop || p.spec == nil {
		return
	}
	if most := g.mostGrace(p, e.At); e.Grace > most+rounding {
		g.broken(e.At, "I4", "%s/%s gets %s to stop, asked for was %s", e.UID, e.Container, e.Grace, most)
	}
	restarted := g.blind[blindNode].lost(last, e.At)
	if n := g.blind[blindNode].losses(e.At); n != p.process {
		p.process, p.late = n, false // another process knows nothing of what this one gave
	}
	late := restarted || before > 0 && g.lateGiven(p, e, before)
	late = g.late(p, e) || late || c.killBy <= p.lateBy+rounding
	late = late || p.spec.Spec.ActiveDeadlineSeconds != nil && g.blind[blindHost].lost(last, e.At)
	if before > 0 && c.killBy > before+rounding && !late {
		g.broken(e.At, "I4", "the kill of %s/%s moves from %s to %s", e.UID, e.Container, before, c.killBy)
	}
}

// grace is the pod's own grace period. Its spec is known.
func (p *podFacts) grace() time.Duration {
	return time.Duration(ptr.Deref(p.spec.Spec.TerminationGracePeriodSeconds, 0)) * time.Second
}

// mostAsked is the longest grace period that the pod ever had.
func (p *podFacts) mostAsked() time.Duration {
	most := p.grace()
	for _, a := range p.asked {
		most = max(most, a.grace)
	}
	return most
}

// mostGrace is the longest grace period a node may believe in: that of the spec until it can know of a deletion.
func (g *Guard) mostGrace(p *podFacts, at time.Duration) time.Duration {
	own := p.grace()
	most, known := own, false
	for _, a := range p.asked {
		if g.knownBy(a.at) <= at {
			if !known || a.grace < most {
				most, known = a.grace, true
			}
			continue
		}
		if !known {
			most = max(most, a.grace)
		}
	}
	return most
}

// knownBy is when a node knows at the latest of what happened in the API.
func (g *Guard) knownBy(at time.Duration) time.Duration {
	known := g.allSeen(at, blindNode, blindAPI)
	for _, one := range g.blind[blindNode].spans {
		if one.to <= known {
			known = max(known, g.begunBy(one.to))
		}
	}
	return known
}

// begunBy is when a new node has begun at the latest: it decides about nothing before it has seen the host.
func (g *Guard) begunBy(at time.Duration) time.Duration {
	return g.allSeen(at, blindNode, blindAPI, blindHost)
}

// allSeen is when a node sees all the sides at the latest, from a time on. What it could not see it has to see for as long as it
// needs to learn of it.
func (g *Guard) allSeen(at time.Duration, sides ...string) time.Duration {
	seen := at
	for changed := true; changed; { // the end of one blindness may be in the middle of another
		changed = false
		for _, side := range sides {
			next := g.blind[side].regained(seen)
			if next == seen && seen > at {
				next = g.blind[side].interrupted(seen, seen+learning)
			}
			if next != seen {
				seen, changed = next, true
			}
			if seen == never {
				return never
			}
		}
	}
	if seen == at {
		return at
	}
	return seen + learning
}

// late checks that the kill is not behind the pod's deadline, and says whether it uses what a node that was late has.
func (g *Guard) late(p *podFacts, e Event) bool {
	deadline := g.deadline(p, e.At)
	by := e.At + e.Grace
	if deadline == never || by <= deadline+rounding {
		return false
	}
	short := min(lateStop, g.shortest(p, e.At))
	if !p.late && e.Grace <= short+rounding && g.blind[blindHost].lost(deadline-learning, deadline) {
		p.late, p.lateBy = true, by
		return true
	}
	g.broken(e.At, "I4", "%s/%s gets until %s to stop, the deadline of its pod is %s", e.UID, e.Container, by, deadline)
	return false
}

// lateGiven says whether the kill uses what a node that was late has: the kill it gave before passed while it could not see the
// host, or had not yet noticed that it can. Of a deadline that it had to give nobody need know: it may have known of the deletion
// earlier than it had to, or nobody asked for the end.
func (g *Guard) lateGiven(p *podFacts, e Event, before time.Duration) bool {
	if p.late || before > e.At+rounding || !g.blind[blindHost].lost(before-learning, before) {
		return false
	}
	short := min(lateStop, p.mostAsked())
	for _, a := range p.asked {
		if g.blind[blindAPI].regained(a.at) <= e.At {
			short = min(short, a.grace)
		}
	}
	if e.Grace > short+rounding {
		return false
	}
	p.late, p.lateBy = true, e.At+e.Grace
	return true
}

// shortest is the shortest grace period that a node must know of, never if there is none.
func (g *Guard) shortest(p *podFacts, now time.Duration) time.Duration {
	shortest := never
	for _, a := range p.asked {
		if g.knownBy(a.at) <= now {
			shortest = min(shortest, a.grace)
		}
	}
	return shortest
}

// deadline is when the pod must have ended for all that a node must know now, never if that is nothing.
func (g *Guard) deadline(p *podFacts, now time.Duration) time.Duration {
	deadline := never
	for _, a := range p.asked {
		if known := g.knownBy(a.at); known <= now {
			deadline = min(deadline, known+a.grace)
		}
	}
	if deadline == never {
		return never
	}
	for _, one := range g.blind[blindNode].spans {
		if one.to == never || one.to < p.asked[0].at {
			continue
		}
		begun := g.begunBy(one.to)
		if begun == never {
			return never
		}
		deadline = max(deadline, begun+min(lateStop, g.shortest(p, now)))
	}
	return max(deadline, p.lateBy)
}
