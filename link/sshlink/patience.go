// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package sshlink

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// firstRefusalPause is the pause after the first attempt that ended with a refusal, maxRefusalPause the one after many in a row.
	firstRefusalPause = 2 * time.Second
	maxRefusalPause   = time.Minute
	// maxUploadPause is the one after many for which the host was sent a program in vain: at every maxRefusalPause that would be ten
	// gigabytes a day and more.
	maxUploadPause = 10 * time.Minute
)

// refusal is an error after which the next attempt has to wait.
type refusal interface {
	error
	// mostPause is how long it may have to wait after many of them.
	mostPause() time.Duration
}

// loginError is a login that a server refused.
type loginError struct{ error }

func (e loginError) Unwrap() error          { return e.error }
func (loginError) mostPause() time.Duration { return maxRefusalPause }

// programError is a program that cannot be put on the host, or ends before it serves.
type programError struct {
	error
	most time.Duration
}

func (e programError) Unwrap() error            { return e.error }
func (e programError) mostPause() time.Duration { return e.most }

// patience keeps attempts apart that end with a refusal, by the server or by us. Each one is a line in the server's log, and
// many servers shut out who fails often: then the right key would not help any more. An upload in vain costs what it sends.
type patience struct {
	clock clock.Clock
	// jitter returns a random duration below its argument.
	jitter func(below time.Duration) time.Duration

	mu    sync.Mutex
	pause time.Duration // the last one, zero after an attempt that was not refused
	until time.Time
}

func newPatience(c clock.Clock) *patience {
	return &patience{clock: c, jitter: func(below time.Duration) time.Duration {
		return rand.N(below) //nolint:gosec // it spreads load and protects nothing.
	}}
}

// wait returns when the next attempt may be made. The error is that of ctx.
func (p *patience) wait(ctx context.Context) error {
	p.mu.Lock()
	left := p.until.Sub(p.clock.Now())
	p.mu.Unlock()
	if left <= 0 {
		return nil
	}
	timer := p.clock.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// note takes how an attempt ended.
func (p *patience) note(err error) {
	var why refusal
	p.mu.Lock()
	defer p.mu.Unlock()
	if !errors.As(err, &why) || errors.Is(err, context.Canceled) {
		p.pause, p.until = 0, time.Time{}
		return
	}
	p.pause = min(max(2*p.pause, firstRefusalPause), why.mostPause())
	p.until = p.clock.Now().Add(p.pause + p.jitter(p.pause/4))
}
