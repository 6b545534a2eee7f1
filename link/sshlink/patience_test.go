// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package sshlink

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

func TestRefusedLoginsComeEverMoreRarely(t *testing.T) {
	for name, refusal := range map[string]error{
		"login": loginError{errors.New("no")}, "host key": hostKeyError{errors.New("no")}, "program": programError{errors.New("no"), maxRefusalPause},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPatience(clock.RealClock{})
				p.jitter = func(time.Duration) time.Duration { return 0 }
				waited := func() time.Duration {
					begin := time.Now()
					if err := p.wait(t.Context()); err != nil {
						t.Fatal(err)
					}
					return time.Since(begin)
				}
				for _, want := range []time.Duration{0, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute} {
					if got := waited(); got != want {
						t.Errorf("waited %v, want %v", got, want)
					}
					p.note(fmt.Errorf("dialing: %w", refusal))
				}
				time.Sleep(time.Hour)
				if got := waited(); got != 0 {
					t.Errorf("waited %v after an hour", got)
				}
				for _, other := range []error{nil, errors.New("connection refused")} {
					p.note(refusal)
					p.note(other)
					if got := waited(); got != 0 {
						t.Errorf("waited %v after %v: it says that the host may be coming back", got, other)
					}
				}
				p.note(refusal)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := p.wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

func TestUploadsInVainComeMoreRarelyStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPatience(clock.RealClock{})
		p.jitter = func(time.Duration) time.Duration { return 0 }
		begin, attempts := time.Now(), 0
		for ; time.Since(begin) < 24*time.Hour; attempts++ {
			if err := p.wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.note(fmt.Errorf("dialing: %w", programError{errors.New("no space left"), maxUploadPause}))
		}
		if attempts < 100 || attempts > 160 {
			t.Errorf("%d attempts in a day", attempts)
		}
		p.note(programError{context.Canceled, maxUploadPause})
		if err := p.wait(t.Context()); err != nil || !p.until.IsZero() {
			t.Errorf("who gave up by itself has to wait until %v, %v", p.until, err)
		}
	})
}
