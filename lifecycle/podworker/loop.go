// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"errors"
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
	var lastAct time.Time // when a step may have changed something that nobody has looked at since
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-wk.wake:
		case <-timer.C():
		}
		j := w.take(wk)
		acted, err := w.step(wk, j, lastAct)
		j.cancel()
		if err != nil {
			acted = w.clock.Now()
		}
		if acted.After(lastAct) {
			lastAct = acted
		}
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

// step waits for an observation newer than the last act and does the work. It says when it changed something last, zero if
// that can be seen already.
func (w *Workers) step(wk *worker, j job, lastAct time.Time) (acted time.Time, err error) {
	begin := w.clock.Now()
	defer func() { w.metrics.observe(j, w.clock.Since(begin)) }()
	if j.pod == nil {
		return time.Time{}, w.steps.SyncTerminatingRuntimePod(j.ctx, j.runtime, j.deadline)
	}
	status, err := w.cache.GetNewerThan(j.ctx, wk.uid, lastAct)
	if err != nil {
		if j.ctx.Err() == nil && !errdefs.IsUnavailable(err) { // a lost link is not the pod's trouble
			w.warn(j.pod, "FailedSync", "error determining status: "+err.Error())
		}
		return time.Time{}, err
	}
	w.begin(wk, j)
	if j.phase == PhaseTerminating {
		j.deadline = w.reached(wk, begin)
	}
	return w.dispatch(wk, j, status)
}

func (w *Workers) dispatch(wk *worker, j job, status *cri.PodStatus) (acted time.Time, err error) {
	switch j.phase {
	case PhaseSync:
		out, err := w.steps.SyncPod(j.ctx, j.update, j.pod, status)
		w.wakeAt(wk, out.WakeAt)
		if out.Terminal && err == nil {
			w.completed(wk, out.Begun)
		}
		return out.Acted, err
	case PhaseTerminating:
		return time.Time{}, w.steps.SyncTerminatingPod(j.ctx, j.pod, status, j.deadline)
	default:
		return time.Time{}, w.steps.SyncTerminatedPod(j.ctx, j.pod, status)
	}
}

// logFailure is loud for the first failure in a row. A step that was interrupted for a newer update has not failed.
func (w *Workers) logFailure(wk *worker, j job, err error) {
	if wk.pending != nil || errors.Is(err, context.Canceled) {
		return
	}
	log := w.log.Warn
	if wk.failing {
		log = w.log.Debug
	}
	wk.failing = true
	log("step of a pod failed, trying again", "uid", wk.uid, "phase", j.phase.String(), "error", err)
}

// begin counts a pod at its first step.
func (w *Workers) begin(wk *worker, j job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !wk.begun {
		wk.begun = true
		w.metrics.begun(j, w.clock.Since(wk.state.firstSeen))
	}
}

// reached notes that the host answered, for which the step has waited since the given time, and returns the deadline that
// holds now.
func (w *Workers) reached(wk *worker, since time.Time) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	if now.Sub(since) >= longWait {
		wk.state.lost(since)
	}
	wk.state.reached(now)
	return wk.state.deadline
}

func (w *Workers) wakeAt(wk *worker, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wk.state.wakeAt = at
}

// completed records that the pod ended by itself.
func (w *Workers) completed(wk *worker, begun time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if wk.state.complete(wk.pod, begun, w.clock.Now()) {
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
		w.logFailure(wk, j, err)
		if j.phase == PhaseTerminating && errdefs.IsUnavailable(err) {
			wk.state.lost(now)
		}
		return wk.state.untilDue(w.retryDelay(j.phase, err, now), now), false
	}
	wk.failing = false
	switch {
	case j.pod == nil:
		wk.state.terminatedAt = now
		wk.state.finished = true
		wk.ended()
		delete(w.byUID, wk.uid)
		return 0, true
	case j.phase == PhaseTerminating:
		wk.state.terminatedAt = now
		wk.ended()
		wk.poke()
	case j.phase == PhaseTerminated:
		wk.state.finished = true
		return 0, true
	case wk.state.phase() != PhaseSync:
		wk.poke()
	}
	return wk.state.untilDue(w.retryDelay(j.phase, nil, now), now), false
}
