// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/utils/ptr"
)

func TestDeadlineThatPassedWhileTheHostWasOutOfReach(t *testing.T) {
	second := time.Second
	for _, tc := range []struct {
		name          string
		update        Update
		lost, reached time.Duration // after the request
		want          time.Duration
	}{
		{"gets ten seconds", Update{Type: Change, Pod: deleted(60, 60, t0)}, second, 300 * second, 310 * second},
		{"gets no more than it had left", Update{Type: Change, Pod: deleted(60, 4, t0)}, second, 300 * second, 303 * second},
		{"gets no more than was lost", Update{Type: Change, Pod: deleted(60, 60, t0)}, 58 * second, 61 * second, 63 * second},
		{"stays if there is time left", Update{Type: Change, Pod: deleted(60, 60, t0)}, second, 59 * second, 60 * second},
		{"stays if it had passed before", Update{Type: Change, Pod: deleted(60, 5, t0)}, 6 * second, 300 * second, 5 * second},
		{"stays if the deletion is forced", Update{Type: Change, Pod: deleted(60, 0, t0)}, 0, 300 * second, second},
		{"stays if the object vanished", Update{Type: Kill, Pod: pod(60), Grace: ptr.To(second)}, 0, 300 * second, second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var s state
			s.admit(&Update{Type: Create, Pod: pod(60)}, pod(60), t0.Add(-time.Hour))
			s.admit(&tc.update, tc.update.Pod, t0)
			s.lost(t0.Add(tc.lost))
			s.lost(t0.Add(tc.reached - time.Millisecond))
			s.reached(t0.Add(tc.reached))
			if got := s.deadline.Sub(t0); got != tc.want {
				t.Errorf("deadline is %s after the request, want %s", got, tc.want)
			}
		})
	}
}

// TestDeadlineRecedesAtMostOnceAndOnlyForALostHost drives a state with random updates and outages.
func TestDeadlineRecedesAtMostOnceAndOnlyForALostHost(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	moves := 0
	for range 2000 {
		var s state
		now, receded := t0, 0
		for range 30 {
			now = now.Add(time.Duration(rng.IntN(20000)) * time.Millisecond)
			before := s.deadline
			lost := !s.lostAt.IsZero()
			reaching := false
			switch rng.IntN(4) {
			case 0:
				u := randomUpdate(rng, now)
				s.admit(&u, u.Pod, now)
			case 1:
				if s.phase() == PhaseTerminating {
					s.lost(now)
				}
			default:
				if s.phase() == PhaseTerminating {
					reaching = true
					s.reached(now)
				}
			}
			if before.IsZero() || !s.deadline.After(before) {
				continue
			}
			receded++
			if !lost || !reaching || now.Before(before) || s.deadline.Sub(now) > lateGrace || receded > 1 {
				t.Fatalf("deadline receded from %s to %s at %s (move %d)", before, s.deadline, now, receded)
			}
		}
		moves += receded
	}
	if moves == 0 {
		t.Error("no deadline moved, so the test proves nothing")
	}
}

func TestBudgetOfAPodThatEndsByItselfBeginsOnce(t *testing.T) {
	second := time.Second
	for _, tc := range []struct {
		name             string
		begun, now, want time.Duration
	}{
		{"gets its whole grace period", 0, 100 * second, 160 * second},
		{"gets what an earlier process left of it", 100 * second, 111 * second, 160 * second},
		{"gets time for its end if nothing is left", 100 * second, 300 * second, 310 * second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var s state
			s.admit(&Update{Type: Create, Pod: pod(60)}, pod(60), t0)
			var begun time.Time
			if tc.begun > 0 {
				begun = t0.Add(tc.begun)
			}
			if !s.complete(pod(60), begun, t0.Add(tc.now)) || s.complete(pod(60), begun, t0.Add(tc.now+second)) {
				t.Error("it is news exactly once")
			}
			if got := s.deadline.Sub(t0); got != tc.want {
				t.Errorf("deadline is %s, want %s", got, tc.want)
			}
		})
	}
}
