// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package exithook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/lifecycle/podref"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// maxFailures is how often it is tried to begin a hook before that is given up.
const maxFailures = 3

// outcome is how a hook ended, as counted in the metric.
type outcome string

const (
	succeeded   outcome = "succeeded"
	failed      outcome = "failed"
	timedOut    outcome = "timed_out"
	notBegun    outcome = "not_begun"
	interrupted outcome = "interrupted" // an earlier run was cut short on the host; it is not begun again
	cutShort    outcome = "cut_short"   // a pause that was longer than its time
	ranBefore   outcome = "ran_before"  // the ordinary hook was begun while the container ran
)

// result is how a hook ended. An error says what the user shall know.
type result struct {
	outcome outcome
	err     error
}

// job is one hook in one call of Run.
type job struct {
	*Runner
	Hook
	pod      *v1.Pod
	status   *cri.PodStatus
	deadline time.Time
}

// run carries the hook to its end and tells of a failure once.
func (j *job) run(ctx context.Context) error {
	res, err := j.perform(ctx)
	if err != nil {
		return fmt.Errorf("running the preStop hook of finished container %q: %w", j.Container.Name, err)
	}
	if !j.memory.end(j.pod.UID, j.Record.ID) {
		return nil
	}
	j.hooks.WithLabelValues(string(res.outcome)).Inc()
	if res.err != nil {
		j.event(v1.EventTypeWarning, "FailedPreStopHook", fmt.Sprintf("preStop hook of finished container %s failed: %v", j.Container.Name, res.err))
	}
	j.log.Info("the preStop hook of a finished container ended", "pod", j.pod.Namespace+"/"+j.pod.Name, "uid", j.pod.UID,
		"container", j.Container.Name, "outcome", string(res.outcome), "error", res.err)
	return nil
}

func (j *job) perform(ctx context.Context) (result, error) {
	if j.Hook.Runner == nil {
		begun, err := j.ordinaryHookBegun(ctx)
		if err != nil {
			return j.retry(ctx, err)
		}
		if begun {
			return result{outcome: ranBefore}, nil
		}
	}
	if j.Container.Lifecycle.PreStop.Exec != nil {
		return j.runCommand(ctx)
	}
	return j.runOnHost(ctx)
}

// ordinaryHookBegun says whether the container's hook was begun while it ran, because somebody stopped it.
func (j *job) ordinaryHookBegun(ctx context.Context) (bool, error) {
	answer, cancel := context.WithTimeout(ctx, cri.DefaultTimeout)
	defer cancel()
	_, err := j.opts.Hooks.RunHook(answer, host.HookRequest{
		PodUID: j.pod.UID, ContainerID: j.Record.ID, Kind: host.HookPreStop, JoinOnly: true,
	})
	if errdefs.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// runOnHost lets the host make a request or a pause.
func (j *job) runOnHost(ctx context.Context) (result, error) {
	req, err := podrules.HookRequest(j.pod, j.Container, host.HookPreStopOnExit, j.Record.ID, j.status.FirstIP())
	if err != nil {
		return result{notBegun, err}, nil
	}
	req.Timeout = j.left()
	answer, cancel := context.WithTimeout(ctx, req.Timeout+podrules.HookAnswer)
	defer cancel()
	j.tell()
	got, err := j.opts.Hooks.RunHook(answer, req)
	switch {
	case err == nil:
		return classify(req, got), nil
	case ctx.Err() == nil && answer.Err() != nil:
		return result{timedOut, errors.New("the host did not say in time how it ended")}, nil
	default:
		return j.retry(ctx, err)
	}
}

func classify(req host.HookRequest, r *host.HookResult) result {
	switch {
	case r.Interrupted:
		return result{outcome: interrupted}
	case r.TimedOut && req.Sleep != nil: // it is there to pass time, and all there was has passed
		return result{outcome: cutShort}
	case r.TimedOut:
		return result{timedOut, errTime}
	case r.ExitCode != 0:
		return result{failed, errors.New("the request could not be made")}
	default:
		return result{outcome: succeeded}
	}
}

var errTime = errors.New("it was ended when its time was up")

// retry is for a call that failed: it is made again with a new observation, unless it was refused too often or the hook's
// time is up. A host that does not answer, and a ctx that ended, say nothing about the hook.
func (j *job) retry(ctx context.Context, err error) (result, error) {
	if ctx.Err() != nil || errdefs.IsUnavailable(err) {
		return result{}, err
	}
	if j.memory.fail(j.pod.UID, j.Record.ID) < maxFailures && j.opts.Clock.Now().Before(j.deadline) {
		return result{}, err
	}
	return result{notBegun, err}, nil
}

// left is how long the hook may run from now.
func (j *job) left() time.Duration { return max(j.deadline.Sub(j.opts.Clock.Now()), podrules.MinHook) }

// tell tells the user, once, that the hook runs.
func (j *job) tell() {
	if j.memory.tell(j.pod.UID, j.Record.ID) {
		j.event(v1.EventTypeNormal, "PreStopOnExit", "Running preStop hook of finished container "+j.Container.Name)
	}
}

func (j *job) event(eventType, reason, message string) {
	j.opts.Recorder.Event(podref.Container(j.pod, j.Container.Name), eventType, reason, message)
}
