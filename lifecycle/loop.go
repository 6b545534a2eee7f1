// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tombolo-dev/tombolo/lifecycle/pleg"
	"github.com/tombolo-dev/tombolo/lifecycle/podworker"
)

const (
	// housekeepingPeriod is the kubelet's.
	housekeepingPeriod = 2 * time.Second
	// loopThreshold is how long the main loop may be silent before the node is unhealthy, the kubelet's
	// max(2 x syncFrequency, 5 minutes).
	loopThreshold = 5 * time.Minute
)

// loop is the main loop. Nothing in it waits for a pod, the runtime or the API; what has to wait is started in wg. It
// begins when it is known what runs: before, a pod that runs could be taken for a new one and be refused.
func (e *Engine) loop(ctx context.Context, wg *sync.WaitGroup) {
	e.beat()
	select {
	case <-ctx.Done():
		return
	case <-e.pleg.Observed():
	}
	tick := e.clock.NewTicker(housekeepingPeriod)
	defer tick.Stop()
	for {
		e.beat()
		select {
		case <-ctx.Done():
			return
		case ev := <-e.opts.Source.Events():
			e.handlePod(ev)
		case ev := <-e.pleg.Events():
			e.handleRuntime(ev)
		case <-tick.C():
			e.housekeep(ctx, wg)
		}
	}
}

func (e *Engine) beat() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.loopSeen = e.clock.Now()
}

// handleRuntime wakes the worker of a pod whose containers changed.
func (e *Engine) handleRuntime(ev pleg.Event) {
	if ev.Type == pleg.ContainerRemoved {
		return
	}
	pod, ok := e.pod(ev.UID)
	if !ok || e.isRejected(ev.UID) {
		return
	}
	e.workers.Update(podworker.Update{Type: podworker.Sync, Pod: pod})
}

// Healthy is nil while the engine can see the runtime and its main loop turns.
func (e *Engine) Healthy() error {
	if err := e.pleg.Healthy(); err != nil {
		return fmt.Errorf("PLEG is not healthy: %w", err)
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.clock.Since(e.loopSeen) > loopThreshold {
		return errors.New("the main loop of the engine does not turn")
	}
	return nil
}
