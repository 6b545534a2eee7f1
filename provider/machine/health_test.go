// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"errors"
	"testing"
	"time"
)

func TestHealthIsDownAfterPatienceAndTwoFailures(t *testing.T) {
	t0 := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	type request struct {
		sent, took time.Duration
		fails      bool
	}
	for name, tc := range map[string]struct {
		requests []request
		down     bool
		since    time.Duration
	}{
		"never asked":                    {},
		"answers":                        {requests: []request{{sent: 0}}},
		"one failure":                    {requests: []request{{sent: 0, fails: true}}},
		"one slow failure":               {requests: []request{{sent: 0, took: time.Minute, fails: true}}},
		"two failures within patience":   {requests: []request{{sent: 0, fails: true}, {sent: 9 * time.Second, fails: true}}},
		"two failures beyond patience":   {requests: []request{{sent: 5 * time.Second, fails: true}, {sent: 15 * time.Second, fails: true}}, down: true, since: 5 * time.Second},
		"an answer in between":           {requests: []request{{sent: 0, fails: true}, {sent: 5 * time.Second}, {sent: 12 * time.Second, fails: true}, {sent: 13 * time.Second, fails: true}}},
		"stays down":                     {requests: []request{{sent: 0, fails: true}, {sent: 10 * time.Second, fails: true}, {sent: 11 * time.Second, fails: true}}, down: true},
		"back with the first answer":     {requests: []request{{sent: 0, fails: true}, {sent: 10 * time.Second, fails: true}, {sent: 11 * time.Second}}},
		"the wait for an answer counted": {requests: []request{{sent: 0, took: 5 * time.Second, fails: true}, {sent: 6 * time.Second, took: 5 * time.Second, fails: true}}, down: true},
	} {
		t.Run(name, func(t *testing.T) {
			h := health{patience: 10 * time.Second}
			for _, r := range tc.requests {
				var err error
				if r.fails {
					err = errors.New("no answer")
				}
				h = h.next(t0.Add(r.sent), t0.Add(r.sent+r.took), err)
			}
			outage := h.outage()
			if (outage != nil) != tc.down {
				t.Fatalf("outage = %+v, want down = %v", outage, tc.down)
			}
			if tc.down && (!outage.Since.Equal(t0.Add(tc.since)) || outage.Err == nil) {
				t.Errorf("outage since %v with error %v, want since %v with an error", outage.Since, outage.Err, t0.Add(tc.since))
			}
		})
	}
}
