// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package calmlog

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
)

const (
	// burst is how many lines are written at once, interval the time after which there may be another one: enough to follow a host
	// that is refused each time it tries.
	burst    = 30
	interval = 5 * time.Second
	// busyBurst and busyInterval are the same for somebody who is known: enough for all that a host says as it starts and while it is
	// well, and a bound all the same.
	busyBurst    = 500
	busyInterval = 500 * time.Millisecond
)

// Log writes lines, unless they are many.
type Log struct {
	logger *slog.Logger
	clock  clock.PassiveClock

	mu      sync.Mutex
	limiter *rate.Limiter
	leftOut int
}

// New returns a log that writes to logger.
func New(logger *slog.Logger, clk clock.PassiveClock) *Log {
	return &Log{logger: logger, clock: clk, limiter: rate.NewLimiter(rate.Every(interval), burst)}
}

// NewBusy returns a log for somebody who is known and has much to say.
func NewBusy(logger *slog.Logger, clk clock.PassiveClock) *Log {
	return &Log{logger: logger, clock: clk, limiter: rate.NewLimiter(rate.Every(busyInterval), busyBurst)}
}

// Warn writes a line of that level, or leaves it out. The next one that is written says how many were.
func (l *Log) Warn(message string, args ...any) { l.Log(slog.LevelWarn, message, args...) }

// Log does so with a line of any level. One that the logger does not want is none.
func (l *Log) Log(level slog.Level, message string, args ...any) {
	ctx := context.Background()
	if !l.logger.Enabled(ctx, level) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.limiter.AllowN(l.clock.Now(), 1) {
		l.leftOut++
		return
	}
	if l.leftOut > 0 {
		args = append(args, "left_out", l.leftOut)
	}
	l.leftOut = 0
	l.logger.Log(ctx, level, message, args...) //nolint:sloglint // it is the callers that have constants
}
