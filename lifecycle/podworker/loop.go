// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/cri"
)

// job is one step to do, taken from a worker under the lock.
type job struct {
	phase    Phase
	update   UpdateType
	pod      *v1.Pod
	runtime  *RuntimePod
	deadline time.Time
	ctx      context.Context //nolint:containedctx // lives for this one step and is passed on explicitly.
	cancel   context.CancelFunc
}

// run is the goroutine of one worker.
func (w *Workers) run(wk *worker) {
	timer := w.clock.NewTimer(resyncInterval)
	defer timer.Stop()
	var lastEnd time.Time
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-wk.wake:
		case <-timer.C():
		}
		j := w.take(wk)
		err := w.step(wk, j, lastEnd)
		j.cancel()
		lastEnd = w.clock.Now()
		if w.ctx.Err() != nil {
			return
		}
		again, done := w.advance(wk, j, err)
		if done {
			return
		}
		resetTimer(timer, again)
	}
}

type resettable interface {
	C() <-chan time.Time
	Stop() bool
	Reset(d time.Duration) bool
}

func resetTimer(t resettable, d time.Duration) {
	if !t.Stop() {
		select {
		case <-t.C():
		default:
		}
	}
	t.Reset(d)
}

// take consumes the pending update and prepares the next step.
func (w *Workers) take(wk *worker) job {
	w.mu.Lock()
	defer w.mu.Unlock()
	j := job{phase: wk.state.phase(), update: Sync, pod: wk.pod, runtime: wk.runtime, deadline: wk.state.deadline}
	if wk.pending != nil {
		j.update = wk.pending.Type
		wk.pending = nil
	}
	j.ctx, j.cancel = context.WithCancel(w.ctx)
	wk.cancelStep = j.cancel
	return j
}

// step waits for an observation newer than the last step and does the work.
func (w *Workers) step(wk *worker, j job, lastEnd time.Time) error {
	begin := w.clock.Now()
	defer func() { w.metrics.observe(j, w.clock.Since(begin)) }()
	if j.pod == nil {
		return w.steps.SyncTerminatingRuntimePod(j.ctx, j.runtime, j.deadline)
	}
	status, err := w.cache.GetNewerThan(j.ctx, wk.uid, lastEnd)
	if err != nil {
		if j.ctx.Err() == nil && !errdefs.IsUnavailable(err) { // a lost link is not the pod's trouble
			w.warn(j.pod, "FailedSync", "error determining status: "+err.Error())
		}
		return err
	}
	return w.dispatch(wk, j, status)
}

func (w *Workers) dispatch(wk *worker, j job, status *cri.PodStatus) error {
	switch j.phase {
	case PhaseSync:
		terminal, err := w.steps.SyncPod(j.ctx, j.update, j.pod, status)
		if terminal && err == nil {
			w.completed(wk)
		}
		return err
	case PhaseTerminating:
		return w.steps.SyncTerminatingPod(j.ctx, j.pod, status, j.deadline)
	default:
		return w.steps.SyncTerminatedPod(j.ctx, j.pod, status)
	}
}

// completed records that the pod ended by itself.
func (w *Workers) completed(wk *worker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if wk.state.terminatingAt.IsZero() {
		now := w.clock.Now()
		wk.state.terminatingAt = now
		wk.state.shorten(now.Add(max(gracePeriod(wk.pod), minGrace)))
		w.log.Info("pod ended by itself", "uid", wk.uid)
	}
}

// advance moves the state after a step. It returns when the next step is due, or that there is none.
func (w *Workers) advance(wk *worker, j job, err error) (time.Duration, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wk.cancelStep = nil
	now := w.clock.Now()
	if err != nil {
		if wk.pending == nil {
			w.log.Debug("step failed", "uid", wk.uid, "phase", j.phase.String(), "error", err)
		}
		return w.retryDelay(j.phase, err, now), false
	}
	switch {
	case j.pod == nil:
		wk.state.terminatedAt = now
		wk.state.finished = true
		delete(w.byUID, wk.uid)
		return 0, true
	case j.phase == PhaseTerminating:
		wk.state.terminatedAt = now
		wk.poke()
	case j.phase == PhaseTerminated:
		wk.state.finished = true
		return 0, true
	case wk.state.phase() != PhaseSync:
		wk.poke()
	}
	return w.retryDelay(j.phase, nil, now), false
}
