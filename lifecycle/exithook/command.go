// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package exithook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// errGone says that the pod has nothing left to run the hook in.
var errGone = errors.New("the pod's sandbox is gone, so it cannot run")

// runCommand runs an exec hook in a container of its own, from where the record of that one says.
func (j *job) runCommand(ctx context.Context) (result, error) {
	runner := j.Hook.Runner
	if runner == nil {
		id, res, err := j.create(ctx)
		if id == "" {
			return res, err
		}
		runner = &cri.ContainerStatus{ID: id, State: cri.ContainerCreated}
	}
	if runner.State == cri.ContainerCreated {
		if res, over, err := j.start(ctx, runner.ID); over || err != nil {
			return res, err
		}
	}
	return j.wait(ctx, runner)
}

// create makes the container of the hook. Without an id there is none, and the rest says what becomes of the hook.
func (j *job) create(ctx context.Context) (id string, res result, err error) {
	sandbox := j.status.ReadySandbox()
	if sandbox == nil {
		return "", result{notBegun, errGone}, nil
	}
	cfg, sandboxCfg, err := j.opts.Configure(ctx, j.pod, j.status, j.Container, j.Record, j.Container.Lifecycle.PreStop.Exec.Command)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		// It is not called off half way, so that whoever comes next sees what there is.
		id, err = j.opts.Runtime.CreateContainer(context.WithoutCancel(ctx), sandbox.ID, cfg, sandboxCfg)
	}
	if err != nil {
		res, err = j.retry(ctx, err)
		return "", res, err
	}
	return id, result{}, nil
}

// start starts the created container. The hook is over if that cannot be done.
func (j *job) start(ctx context.Context, id string) (res result, over bool, err error) {
	if err := ctx.Err(); err != nil {
		return result{}, false, err
	}
	err = j.opts.Runtime.StartContainer(context.WithoutCancel(ctx), id)
	switch {
	case err == nil:
		j.tell()
		return result{}, false, nil
	case errdefs.IsUnavailable(err):
		return result{}, false, err
	}
	// The runtime refuses to start what a call of an earlier process has started.
	status, lookErr := j.opts.Runtime.ContainerStatus(ctx, id)
	switch {
	case lookErr != nil && !errdefs.IsNotFound(lookErr):
		return result{}, false, lookErr
	case status.GetStartedAt() != 0 && status.GetState() != runtimeapi.ContainerState_CONTAINER_CREATED:
		return result{}, false, nil
	default:
		return result{notBegun, err}, true, nil
	}
}

// wait returns when the container of the hook has ended, at the latest when its time is up: then it is killed.
func (j *job) wait(ctx context.Context, runner *cri.ContainerStatus) (result, error) {
	timed, cancel := context.WithTimeout(ctx, j.leftOf(runner))
	defer cancel()
	begin, seen := j.opts.Clock.Now(), j.status
	for {
		switch runner.State {
		case cri.ContainerExited:
			return judge(runner), nil
		case cri.ContainerUnknown:
			return j.kill(ctx, runner.ID, result{failed, errors.New("the runtime lost its container")})
		}
		next, err := j.opts.Cache.GetOther(timed, j.pod.UID, seen)
		switch {
		case err == nil:
			seen = next
			if found := next.ExitHook(j.Container.Name); found != nil {
				runner = found
			} else if next.ObservedAt.After(begin) { // an older one may be from before the container was made
				return result{failed, errors.New("its container was removed")}, nil
			}
		case ctx.Err() != nil:
			return result{}, ctx.Err()
		default:
			return j.kill(ctx, runner.ID, result{timedOut, errTime})
		}
	}
}

// leftOf is how long the hook may run from now: one that an earlier process began had its time counted from then.
func (j *job) leftOf(runner *cri.ContainerStatus) time.Duration {
	left := j.left()
	if runner.StartedAt.IsZero() {
		return left
	}
	end := runner.StartedAt.Add(-j.opts.ClockOffset()).Add(max(podrules.GracePeriod(j.pod, podrules.MinHook), podrules.MinHook))
	return max(min(left, end.Sub(j.opts.Clock.Now())), 0)
}

func (j *job) kill(ctx context.Context, id string, res result) (result, error) {
	if err := j.opts.Runtime.StopContainer(ctx, id, 0); err != nil {
		return result{}, fmt.Errorf("killing its container %q: %w", id, err)
	}
	return res, nil
}

func judge(runner *cri.ContainerStatus) result {
	switch {
	case runner.ExitCode == 0:
		return result{outcome: succeeded}
	case runner.StartedAt.IsZero():
		return result{notBegun, fmt.Errorf("its container could not be started: %s", runner.Message)}
	default:
		return result{failed, fmt.Errorf("it ended with exit code %d", runner.ExitCode)}
	}
}
