// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package termination

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// outcome is how a hook ended, as counted in the metric.
type outcome string

const (
	hookSucceeded   outcome = "succeeded"
	hookFailed      outcome = "failed"
	hookTimedOut    outcome = "timed_out"
	hookInterrupted outcome = "interrupted" // an earlier run was cut short on the host; it is not begun again
	hookGone        outcome = "container_gone"
	hookUnsupported outcome = "unsupported"
	hookCutShort    outcome = "cut_short" // a pause that was longer than the budget
)

// failed says whether the user must be told.
func (o outcome) failed() bool { return o == hookFailed || o == hookTimedOut || o == hookUnsupported }

// preStopOf returns the container's preStop hook, nil if there is none.
func preStopOf(pod *v1.Pod, container string) *v1.LifecycleHandler {
	if c, _ := podrules.Find(pod, container); c != nil && c.Lifecycle != nil {
		return c.Lifecycle.PreStop
	}
	return nil
}

// runPreStop runs the container's preStop hook, or joins it if it runs, and returns nil when the container may be
// stopped: the hook's own failure does not stand in the way. An error means that the hook's end is not known because
// ctx was cancelled or the link was lost.
func (t *Terminator) runPreStop(ctx context.Context, v victim, deadline time.Time) error {
	id := v.container.ID
	// Only what was seen running has something to prepare for its end.
	if v.preStop == nil || v.container.State != cri.ContainerRunning || t.memory.hookDone(v.uid, id) {
		return nil
	}
	result, err := t.runHook(ctx, v, deadline)
	if errors.Is(err, errNoAnswer) {
		// The budget is used up, so the container is stopped; but whether the hook has run is not known, so should that
		// fail, the next call asks again.
		t.warnHook(v, hookResult{hookTimedOut, err})
		return nil
	}
	if err != nil {
		return err
	}
	t.memory.setHookDone(v.uid, id)
	t.metrics.hooks.WithLabelValues(string(result.outcome)).Inc()
	if result.outcome == hookCutShort {
		t.metrics.cutShort.Inc()
	}
	if result.outcome.failed() {
		t.warnHook(v, result)
	}
	return nil
}

// warnHook tells the user, once per container, that its hook failed.
func (t *Terminator) warnHook(v victim, result hookResult) {
	if !t.memory.warnHook(v.uid, v.container.ID) {
		return
	}
	t.recorder.Event(v.object, v1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed")
	t.log.Warn("a preStop hook failed", "uid", v.uid, "container", v.container.Name, "id", v.container.ID,
		"outcome", string(result.outcome), "error", result.detail)
}

// hookResult is how a hook ended. detail is for the log and never holds output of the hook.
type hookResult struct {
	outcome outcome
	detail  error
}

// errNoAnswer says that the host did not tell in time how a hook ended.
var errNoAnswer = errors.New("the host did not say in time how the hook ended")

func (t *Terminator) runHook(ctx context.Context, v victim, deadline time.Time) (hookResult, error) {
	c, _ := podrules.Find(v.pod, v.container.Name)
	req, err := podrules.HookRequest(v.pod, c, host.HookPreStop, v.container.ID, v.podIP)
	if err != nil {
		return hookResult{hookUnsupported, err}, nil
	}
	req.Timeout = hookTime(deadline, t.clock.Now())
	answerCtx, cancel := context.WithTimeout(ctx, req.Timeout+podrules.HookAnswer)
	defer cancel()
	got, err := t.hooks.RunHook(answerCtx, req)
	switch {
	case err == nil:
		if got.HTTPFallback {
			reason, message := podrules.HTTPFallback(req.HTTPGet)
			t.recorder.Event(v.object, v1.EventTypeWarning, reason, message)
		}
		return classify(req, got), nil
	case ctx.Err() != nil:
		return hookResult{}, fmt.Errorf("running the preStop hook of container %q: %w", v.container.Name, ctx.Err())
	case answerCtx.Err() != nil || errdefs.IsDeadlineExceeded(err):
		return hookResult{}, errNoAnswer
	case errdefs.IsNotFound(err):
		return hookResult{hookGone, err}, nil
	case errdefs.IsUnavailable(err):
		return hookResult{}, fmt.Errorf("running the preStop hook of container %q: %w", v.container.Name, err)
	case t.ended(ctx, v.container.ID):
		return hookResult{hookGone, err}, nil
	default:
		return hookResult{hookFailed, err}, nil
	}
}

func classify(req host.HookRequest, r *host.HookResult) hookResult {
	switch {
	case r.Interrupted:
		return hookResult{outcome: hookInterrupted}
	case r.ContainerEnded: // it had nothing left to prepare
		return hookResult{outcome: hookGone}
	case r.TimedOut && req.Sleep != nil: // it is there to pass time, and all there was has passed
		return hookResult{outcome: hookCutShort}
	case r.TimedOut:
		return hookResult{hookTimedOut, errors.New("the hook was killed when its time was up")}
	case r.ExitCode != 0:
		return hookResult{hookFailed, fmt.Errorf("the hook ended with exit code %d", r.ExitCode)}
	default:
		return hookResult{outcome: hookSucceeded}
	}
}
