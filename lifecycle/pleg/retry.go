// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package pleg

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A pod whose observation failed is looked at again after a pause that doubles with each failure in a row. The longest one
// is short enough for a worker that waits for the pod.
const (
	firstRetry   = time.Second
	longestRetry = 10 * time.Second
)

// retry is a pod whose last observation failed.
type retry struct {
	failures int
	at       time.Time // of the next attempt
	// states are those of the list whose inspection failed, nil if the list itself failed.
	states map[string]state
}

// retryLater plans the next observation of a pod after a failure.
func (l *loop) retryLater(uid types.UID, states map[string]state) {
	r := l.retries[uid]
	if r == nil {
		r = &retry{}
		l.retries[uid] = r
	}
	pause := min(firstRetry<<min(r.failures, 8), longestRetry)
	r.failures++
	r.at = l.p.o.Clock.Now().Add(pause)
	r.states = states
	l.armRetries()
}

// forgive forgets the failures of a pod.
func (l *loop) forgive(uid types.UID) { delete(l.retries, uid) }

// waits says whether the pod is as it was when its inspection failed, and the time for the next one has not come.
func (l *loop) waits(s *snapshot) bool {
	r := l.retries[s.uid]
	if r == nil || r.states == nil || !l.p.o.Clock.Now().Before(r.at) {
		return false
	}
	_, changed := compare(s.uid, r.states, s.states())
	return !changed
}

// retryFailed observes the pods whose time has come.
func (l *loop) retryFailed(ctx context.Context) {
	now := l.p.o.Clock.Now()
	for uid, r := range l.retries {
		if l.inflight[uid] == nil && !now.Before(r.at) {
			l.request(ctx, uid, now)
		}
	}
	l.armRetries()
}

// armRetries sets the timer to the earliest attempt to come. One that is due already is under way.
func (l *loop) armRetries() {
	now := l.p.o.Clock.Now()
	next := longestRetry
	for _, r := range l.retries {
		if r.at.After(now) {
			next = min(next, r.at.Sub(now))
		}
	}
	l.retryDue.Reset(next)
}
