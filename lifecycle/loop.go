// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/lifecycle/pleg"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
	"github.com/tombolo-dev/tombolo/lifecycle/podworker"
)

const (
	// housekeepingPeriod is the kubelet's.
	housekeepingPeriod = 2 * time.Second
	// loopThreshold is how long the main loop may be silent before the node is unhealthy, the kubelet's
	// max(2 x syncFrequency, 5 minutes).
	loopThreshold = 5 * time.Minute
)

// loop is the main loop. Nothing in it waits for a pod, the runtime or the API; what has to wait is started in wg.
func (e *Engine) loop(ctx context.Context, wg *sync.WaitGroup) {
	e.gather(ctx)
	tick := e.clock.NewTicker(housekeepingPeriod)
	defer tick.Stop()
	retry := e.clock.NewTimer(resizeFirstRetry)
	defer retry.Stop()
	for {
		e.beat()
		select {
		case <-ctx.Done():
			return
		case ev := <-e.opts.Source.Events():
			e.handlePod(ev)
		case ev := <-e.pleg.Events():
			e.handleRuntime(ev)
		case u := <-e.probes.Updates():
			e.handleProbe(u)
		case <-e.refresh.wanted:
			e.handleRefreshes()
		case <-retry.C():
			e.retryResizes()
			retry.Reset(resizeRetry)
		case <-tick.C():
			e.housekeep(ctx, wg)
		}
	}
}

// gather takes the desired state as it comes until it is known what runs, and only then decides about the pods: before, one
// that runs could be taken for a new one and be refused.
func (e *Engine) gather(ctx context.Context) {
	var added []types.UID
	for {
		select {
		case <-ctx.Done():
			return
		case ev := <-e.opts.Source.Events():
			switch ev.Type {
			case PodAdded:
				added = append(added, ev.Pod.UID)
				e.remember(ev.Pod)
			case PodUpdated, PodReconciled:
				if !podrules.Static(ev.Pod) {
					e.remember(ev.Pod)
				}
			default:
				e.handlePod(ev)
			}
		case <-e.pleg.Observed():
			e.beat()
			for _, uid := range added {
				if pod, ok := e.pod(uid); ok {
					e.added(pod)
				}
			}
			e.retryResizes()
			return
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
	e.update(podworker.Sync, pod)
}

// Healthy is nil while the engine can see the runtime and its main loop turns.
func (e *Engine) Healthy() error {
	if err := e.pleg.Healthy(); err != nil {
		return fmt.Errorf("PLEG is not healthy: %w", err)
	}
	e.mu.RLock()
	begun := !e.loopSeen.IsZero()
	e.mu.RUnlock()
	if !begun {
		return errNotTurning
	}
	return e.Turning()
}

var errNotTurning = errors.New("the main loop of the engine does not turn")

// Turning is nil unless the main loop began and does not turn any more. Nothing outside of this process can bring that about.
func (e *Engine) Turning() error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if !e.loopSeen.IsZero() && e.clock.Since(e.loopSeen) > loopThreshold {
		return errNotTurning
	}
	return nil
}
