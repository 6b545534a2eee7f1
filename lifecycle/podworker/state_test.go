// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

var t0 = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func pod(grace int64) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "u1", Namespace: "ns", Name: "p"},
		Spec:       v1.PodSpec{TerminationGracePeriodSeconds: ptr.To(grace)},
	}
}

func deleted(grace, deletionGrace int64, requested time.Time) *v1.Pod {
	p := pod(grace)
	p.DeletionGracePeriodSeconds = ptr.To(deletionGrace)
	p.DeletionTimestamp = ptr.To(metav1.NewTime(requested.Add(time.Duration(deletionGrace) * time.Second)))
	return p
}

func failed() *v1.Pod {
	p := pod(30)
	p.Status.Phase = v1.PodFailed
	return p
}

func TestDeadlineOfATerminatingPod(t *testing.T) {
	type step struct {
		at     time.Duration
		update Update
	}
	at := func(d time.Duration, u Update) step { return step{d, u} }
	for _, tc := range []struct {
		name  string
		steps []step
		want  time.Duration // after t0
	}{
		{"deletion gives the deletion's grace", []step{
			at(0, Update{Type: Create, Pod: pod(30)}),
			at(10*time.Second, Update{Type: Change, Pod: deleted(30, 20, t0.Add(10*time.Second))}),
		}, 30 * time.Second},
		{"a kill gives the spec's grace", []step{
			at(0, Update{Type: Create, Pod: pod(30)}),
			at(10*time.Second, Update{Type: Kill, Pod: pod(30)}),
		}, 40 * time.Second},
		{"a terminal phase set by someone else gives the spec's grace", []step{
			at(0, Update{Type: Create, Pod: pod(30)}),
			at(5*time.Second, Update{Type: Change, Pod: failed()}),
		}, 35 * time.Second},
		{"grace zero is one second", []step{
			at(0, Update{Type: Create, Pod: pod(30)}),
			at(0, Update{Type: Kill, Pod: pod(0)}),
		}, time.Second},
		{"a shorter second deletion moves the deadline closer", []step{
			at(0, Update{Type: Create, Pod: pod(600)}),
			at(0, Update{Type: Change, Pod: deleted(600, 600, t0)}),
			at(5*time.Second, Update{Type: Change, Pod: deleted(600, 2, t0.Add(5*time.Second))}),
		}, 7 * time.Second},
		{"a longer second deletion changes nothing", []step{
			at(0, Update{Type: Create, Pod: pod(10)}),
			at(0, Update{Type: Change, Pod: deleted(10, 10, t0)}),
			at(5*time.Second, Update{Type: Change, Pod: deleted(10, 600, t0.Add(5*time.Second))}),
		}, 10 * time.Second},
		{"a repetition of the same deletion changes nothing", []step{
			at(0, Update{Type: Create, Pod: pod(10)}),
			at(0, Update{Type: Change, Pod: deleted(10, 10, t0)}),
			at(9*time.Second, Update{Type: Sync, Pod: deleted(10, 10, t0)}),
		}, 10 * time.Second},
		{"removal of the object cuts a long grace short", []step{
			at(0, Update{Type: Create, Pod: pod(600)}),
			at(0, Update{Type: Change, Pod: deleted(600, 600, t0)}),
			at(5*time.Second, Update{Type: Kill, Pod: pod(600), Grace: ptr.To(time.Second)}),
		}, 6 * time.Second},
		{"an orphan gets its override", []step{
			at(0, Update{Type: Kill, Runtime: &RuntimePod{UID: "u1"}, Grace: ptr.To(time.Second)}),
		}, time.Second},
		{"a pod found deleted at start has what is left", []step{
			at(0, Update{Type: Create, Pod: deleted(60, 60, t0.Add(-20*time.Second))}),
		}, 40 * time.Second},
		{"a pod found deleted long ago still has time for a short hook", []step{
			at(0, Update{Type: Create, Pod: deleted(60, 60, t0.Add(-time.Hour))}),
		}, lateGrace},
		{"but never more than its own grace", []step{
			at(0, Update{Type: Create, Pod: deleted(4, 4, t0.Add(-time.Hour))}),
		}, 4 * time.Second},
		{"an API clock ahead of ours gives no more than the grace", []step{
			at(0, Update{Type: Create, Pod: deleted(30, 30, t0.Add(time.Hour))}),
		}, 30 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var s state
			var known *v1.Pod
			for _, st := range tc.steps {
				if st.update.Pod != nil {
					known = st.update.Pod
				}
				s.admit(&st.update, known, t0.Add(st.at))
			}
			if s.phase() != PhaseTerminating {
				t.Fatalf("phase = %s, want terminating", s.phase())
			}
			if got := s.deadline.Sub(t0); got != tc.want {
				t.Errorf("deadline is %s after the start, want %s", got, tc.want)
			}
		})
	}
}

// TestProgressIsMonotonic drives a state with random updates: the phase never goes back and the deadline never recedes.
func TestProgressIsMonotonic(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 2000 {
		var s state
		now := t0
		var phase Phase
		var deadline time.Time
		for range 30 {
			now = now.Add(time.Duration(rng.IntN(5000)) * time.Millisecond)
			u := randomUpdate(rng, now)
			s.admit(&u, u.Pod, now)
			if rng.IntN(8) == 0 && s.phase() == PhaseTerminating {
				s.terminatedAt = now
			}
			if s.phase() < phase {
				t.Fatalf("phase went from %s to %s on %+v", phase, s.phase(), u)
			}
			if !deadline.IsZero() && s.deadline.After(deadline) {
				t.Fatalf("deadline receded from %s to %s on %+v", deadline, s.deadline, u)
			}
			phase, deadline = s.phase(), s.deadline
		}
	}
}

func randomUpdate(rng *rand.Rand, now time.Time) Update {
	grace := int64(rng.IntN(60))
	switch rng.IntN(5) {
	case 0:
		return Update{Type: Change, Pod: deleted(30, grace, now)}
	case 1:
		return Update{Type: Kill, Pod: pod(30), Grace: ptr.To(time.Duration(grace) * time.Second)}
	case 2:
		return Update{Type: Change, Pod: failed()}
	default:
		return Update{Type: Sync, Pod: pod(30)}
	}
}

func TestDelayBeforeTheNextStep(t *testing.T) {
	plain := errors.New("no")
	for _, tc := range []struct {
		name  string
		phase Phase
		err   error
		want  time.Duration
	}{
		{"success", PhaseSync, nil, resyncInterval},
		{"a failed sync", PhaseSync, plain, errorDelay},
		{"a failed termination", PhaseTerminating, plain, terminationErrorDelay},
		{"crash-loop back-off ends", PhaseSync, &RetryError{Err: plain, At: t0.Add(20 * time.Second)}, 20 * time.Second},
		{"back-off that is over", PhaseSync, &RetryError{Err: plain, At: t0.Add(-time.Hour)}, 0},
		{"back-off beyond a resync", PhaseSync, &RetryError{Err: plain, At: t0.Add(5 * time.Minute)}, resyncInterval},
		{"no network", PhaseSync, fmt.Errorf("%w: cni", ErrNetworkNotReady), transientDelay},
		{"the link is down", PhaseSync, fmt.Errorf("starting: %w", errdefs.ErrUnavailable), transientDelay},
	} {
		if got := baseDelay(tc.phase, tc.err, t0); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}
