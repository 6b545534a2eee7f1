// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"
)

// Times between two attempts to follow the runtime's events.
const (
	minFollowDelay = time.Second
	maxFollowDelay = 30 * time.Second
)

// hints follows the events of the runtime, for ever: when the stream breaks it is opened again. Events are hints that
// something ended; none of them is needed.
type hints struct {
	wake   chan struct{} // gets a value when something may have ended
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func newHints(runtime Lister, labels map[string]string, clk clock.Clock, logger *slog.Logger) *hints {
	ctx, cancel := context.WithCancel(context.Background())
	h := &hints{wake: make(chan struct{}, 1), cancel: cancel}
	h.wg.Go(func() { h.follow(ctx, runtime, labels, clk, logger) })
	return h
}

func (h *hints) follow(ctx context.Context, runtime Lister, labels map[string]string, clk clock.Clock, logger *slog.Logger) {
	delays := newFollowDelays()
	for {
		heard := false
		err := runtime.ContainerEvents(ctx, func(event *runtimeapi.ContainerEventResponse) {
			heard = true
			if concerns(event, labels) {
				h.give()
			}
		})
		if ctx.Err() != nil {
			return
		}
		if heard {
			delays = newFollowDelays()
			h.give() // for the events that are lost
		}
		delay := delays.Step()
		logger.Debug("events of the runtime are not heard", "retry_in", delay.String(), "error", err)
		timer := clk.NewTimer(delay)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
	}
}

func newFollowDelays() *wait.Backoff {
	return &wait.Backoff{Duration: minFollowDelay, Factor: 2, Jitter: .2, Steps: 6, Cap: maxFollowDelay}
}

// give makes a hint. Hints that nobody took yet are one.
func (h *hints) give() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

func (h *hints) close() {
	h.cancel()
	h.wg.Wait()
}
