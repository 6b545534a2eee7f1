// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// Phase is the kind of work a pod is due.
type Phase int

// The phases in the only order they can follow each other.
const (
	PhaseSync Phase = iota
	PhaseTerminating
	PhaseTerminated
	PhaseFinished
)

// String returns the phase's name as used in logs and metrics.
func (p Phase) String() string {
	return [...]string{"sync", "terminating", "terminated", "finished"}[p]
}

const (
	// minGrace is the least a pod gets to stop, as in the kubelet's pod worker.
	minGrace = time.Second
	// lateGrace is what a pod still gets whose deletion deadline passed while no node process was running: enough for a
	// short hook, never more than the pod's own grace period.
	lateGrace = 10 * time.Second
	// longWait is how long a step may wait for an observation before that counts as a host that cannot be reached.
	longWait = 2 * time.Second
)

// state is what is known of one pod's progress. Times are only ever set, never cleared.
type state struct {
	firstSeen     time.Time
	terminatingAt time.Time // termination was requested
	terminatedAt  time.Time // every container has stopped
	finished      bool
	deleted       bool
	// deadline is when the last container must have been killed. It is zero before termination is requested and only
	// moves closer after, but for the one time that reached moves it.
	deadline time.Time
	// grace is the shortest grace period that was asked for, zero before termination is requested.
	grace time.Duration
	// lostAt is when a step first could not reach the host, zero if the last one could. late says that the deadline was
	// moved for that.
	lostAt time.Time
	late   bool
	// wakeAt is when the next sync is due at the latest, zero if that does not matter.
	wakeAt time.Time
}

func (s *state) phase() Phase {
	switch {
	case s.finished:
		return PhaseFinished
	case !s.terminatedAt.IsZero():
		return PhaseTerminated
	case !s.terminatingAt.IsZero():
		return PhaseTerminating
	default:
		return PhaseSync
	}
}

// untilDue is the time to the next step, which would be due after delay if there were no time to wake at.
func (s *state) untilDue(delay time.Duration, now time.Time) time.Duration {
	if s.wakeAt.IsZero() || s.phase() != PhaseSync {
		return delay
	}
	return min(delay, max(s.wakeAt.Sub(now), 0))
}

// born makes the state of a pod that had ended before this process saw it, with nothing of it running: only its resources are
// to be released.
func (s *state) born(now time.Time) {
	s.firstSeen, s.terminatingAt, s.terminatedAt = now, now, now
}

// admitted says what an update did to the state.
type admitted struct {
	becameTerminating bool
	shortened         bool
}

// admit folds an update into the state. It decides whether the pod terminates and by when.
func (s *state) admit(u *Update, known *v1.Pod, now time.Time) admitted {
	var out admitted
	if s.firstSeen.IsZero() {
		s.firstSeen = now
	}
	if s.terminatingAt.IsZero() && requestsTermination(u) {
		s.terminatingAt = now
		out.becameTerminating = true
	}
	if u.orphan() || (u.Pod != nil && u.Pod.DeletionTimestamp != nil) {
		s.deleted = true
	}
	if s.phase() != PhaseTerminating {
		return out
	}
	s.ask(graceOf(u, known))
	out.shortened = s.shorten(nextDeadline(s, u, known, now)) && !out.becameTerminating
	return out
}

func requestsTermination(u *Update) bool {
	if u.orphan() || u.Type == Kill {
		return true
	}
	return u.Pod.DeletionTimestamp != nil || podrules.Terminal(u.Pod.Status.Phase)
}

// ask notes that the pod shall end within a grace period.
func (s *state) ask(grace time.Duration) {
	if s.grace == 0 || grace < s.grace {
		s.grace = grace
	}
}

// graceOf is the grace period that the update asks for.
func graceOf(u *Update, known *v1.Pod) time.Duration {
	switch {
	case u.Grace != nil:
		return max(*u.Grace, minGrace)
	case u.Pod != nil:
		return max(gracePeriod(u.Pod), minGrace)
	case known != nil:
		return max(gracePeriod(known), minGrace)
	default:
		return minGrace
	}
}

// lost notes that a step could not reach the host.
func (s *state) lost(now time.Time) {
	if s.lostAt.IsZero() {
		s.lostAt = now
	}
}

// reached notes that the host can be reached. A budget counts only time in which it could be used: where the host could
// not be reached from before the deadline until after it, the pod gets the lost time back, once and no more of it than a pod
// gets whose deadline passed while no node process was running. A forced deletion gets nothing.
func (s *state) reached(now time.Time) {
	lostAt := s.lostAt
	s.lostAt = time.Time{}
	if lostAt.IsZero() || s.late || s.grace <= minGrace || !lostAt.Before(s.deadline) || now.Before(s.deadline) {
		return
	}
	s.late = true
	s.deadline = s.deadline.Add(min(now.Sub(lostAt), now.Sub(s.deadline)+min(s.grace, lateGrace)))
}

// shorten moves the deadline closer and says whether it did. The first deadline is no shortening.
func (s *state) shorten(d time.Time) bool {
	if s.deadline.IsZero() {
		s.deadline = d
		return false
	}
	if d.Before(s.deadline) {
		s.deadline = d
		return true
	}
	return false
}

// nextDeadline is the deadline the update alone would give.
func nextDeadline(s *state, u *Update, known *v1.Pod, now time.Time) time.Time {
	pod := u.Pod
	if pod == nil {
		pod = known
	}
	if u.Grace != nil {
		return now.Add(max(*u.Grace, minGrace))
	}
	if pod == nil {
		return now.Add(minGrace)
	}
	if s.deadline.IsZero() {
		return firstDeadline(s, pod, now)
	}
	if pod.DeletionGracePeriodSeconds != nil {
		return repeatedDeletion(s, pod, now)
	}
	return s.deadline
}

// firstDeadline gives a pod its whole grace period, except a pod that was already being deleted when this process first
// saw it: its budget began with the deletion.
func firstDeadline(s *state, pod *v1.Pod, now time.Time) time.Time {
	grace := max(gracePeriod(pod), minGrace)
	if pod.DeletionTimestamp == nil || s.firstSeen.Before(now) {
		return now.Add(grace)
	}
	return leftOf(pod.DeletionTimestamp.Time, grace, now)
}

// complete notes that the pod ended by itself, and says whether that is news. It gets its whole grace period, unless an
// earlier process began to end it at a time that is not zero: its budget began then.
func (s *state) complete(pod *v1.Pod, begun, now time.Time) bool {
	if !s.terminatingAt.IsZero() {
		return false
	}
	grace := max(gracePeriod(pod), minGrace)
	s.terminatingAt = now
	s.ask(grace)
	if begun.IsZero() {
		s.shorten(now.Add(grace))
	} else {
		s.shorten(leftOf(begun.Add(grace), grace, now))
	}
	return true
}

// leftOf is when a budget ends that began before this process saw the pod: at its end, but neither before a late pod has had
// its time nor later than a whole grace period from now.
func leftOf(end time.Time, grace time.Duration, now time.Time) time.Time {
	floor, whole := now.Add(min(grace, lateGrace)), now.Add(grace)
	switch {
	case end.Before(floor):
		return floor
	case end.After(whole):
		return whole
	default:
		return end
	}
}

// repeatedDeletion gives the deadline of a pod that is being deleted and is told so again: the one it has (a change of its
// labels repeats the same grace period), unless the grace period asked for now is shorter than what is left.
func repeatedDeletion(s *state, pod *v1.Pod, now time.Time) time.Time {
	asked := max(time.Duration(*pod.DeletionGracePeriodSeconds)*time.Second, minGrace)
	if left := s.deadline.Sub(now); asked < left {
		return now.Add(asked)
	}
	return s.deadline
}

// gracePeriod is the pod's grace period before it is clamped: that of the deletion, else that of the spec.
func gracePeriod(pod *v1.Pod) time.Duration {
	return podrules.GracePeriod(pod, v1.DefaultTerminationGracePeriodSeconds*time.Second)
}
