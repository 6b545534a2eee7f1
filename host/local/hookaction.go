// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/host/local/probe"
)

// noExitCode is the exit code of a hook whose process left none, or that failed without being a process.
const noExitCode = -1

// exitKilled is the exit code of a process that SIGKILL ended.
const exitKilled = 128 + int32(unix.SIGKILL)

// maxHookOutput is how much of a hook's output is kept.
const maxHookOutput = 4096

// hookCheckPeriod is how often it is looked whether the container of a running hook still runs.
const hookCheckPeriod = time.Second

// Why an action was cut short.
var (
	errHookTime      = errors.New("its time was up")
	errHookContainer = errors.New("the container ended before its hook did")
)

func checkAction(req host.HookRequest) error {
	actions := 0
	var err error
	if len(req.Command) > 0 {
		actions++
	}
	if req.HTTPGet != nil {
		actions++
		err = probe.CheckHTTP(req.HTTPGet)
	}
	if req.Sleep != nil {
		actions++
		if *req.Sleep < 0 {
			err = fmt.Errorf("hook sleep %s is negative: %w", *req.Sleep, errdefs.ErrInvalidArgument)
		}
	}
	if actions == 0 && req.JoinOnly {
		return nil
	}
	if req.Kind == host.HookPreStopOnExit && len(req.Command) > 0 {
		return fmt.Errorf("a command cannot be run in a container that has ended, whose hook %q is: %w", req.Kind, errdefs.ErrInvalidArgument)
	}
	if actions != 1 {
		return fmt.Errorf("a hook must have exactly one of command, HTTP request and sleep, not %d: %w", actions, errdefs.ErrInvalidArgument)
	}
	return err
}

// act does what the hook is there for until it is done, its time is up, its container ends or the host process stops.
func (s *hooks) act(req host.HookRequest, run *hookRun) *host.HookResult {
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	ended := make(chan *host.HookResult, 1)
	s.wg.Go(func() { ended <- s.action(ctx, req) })
	if req.Kind != host.HookPreStopOnExit {
		s.wg.Go(func() {
			if s.awaitEnd(ctx, req.ContainerID) {
				cancel(errHookContainer)
			}
		})
	}
	for {
		result, over := s.await(ended, run)
		if result != nil {
			return result
		}
		if over {
			cancel(errHookTime)
			return <-ended
		}
	}
}

// await returns the result of the action, or whether its time is over, or neither when its deadline was moved.
func (s *hooks) await(ended <-chan *host.HookResult, run *hookRun) (result *host.HookResult, over bool) {
	var timeUp <-chan time.Time
	if left, limited := run.left(s.host.clock); limited {
		timer := s.host.clock.NewTimer(left)
		defer timer.Stop()
		timeUp = timer.C()
	}
	select {
	case result := <-ended:
		return result, false
	case <-timeUp:
		return nil, true
	case <-run.moved:
		return nil, false
	}
}

// awaitEnd returns true when the container has ended and false when ctx has. A runtime that does not answer says nothing.
func (s *hooks) awaitEnd(ctx context.Context, containerID string) bool {
	ticker := s.host.clock.NewTicker(hookCheckPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C():
		}
		if s.ended(ctx, containerID) {
			return true
		}
	}
}

// ended says whether the runtime knows that the container does not run.
func (s *hooks) ended(ctx context.Context, containerID string) bool {
	status, err := s.host.runtime.ContainerStatus(ctx, containerID)
	return errdefs.IsNotFound(err) || (err == nil && status.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED)
}

// action does it until ctx ends, and returns how it ended.
func (s *hooks) action(ctx context.Context, req host.HookRequest) *host.HookResult {
	switch {
	case req.HTTPGet != nil:
		fallback, err := probe.Hook(ctx, req.HTTPGet)
		return hookResult(ctx, &host.HookResult{HTTPFallback: fallback}, err)
	case req.Sleep != nil:
		return hookResult(ctx, &host.HookResult{}, s.sleep(ctx, *req.Sleep))
	default:
		// Without a timeout of the runtime's, which counts whole seconds and cannot be shortened. The runtime kills the
		// process when the call ends.
		resp, err := s.host.runtime.ExecSync(ctx, req.ContainerID, req.Command, 0)
		result := hookResult(ctx, &host.HookResult{ExitCode: resp.GetExitCode(), Output: hookOutput(resp)}, err)
		if result.ExitCode == noExitCode || result.ExitCode == exitKilled {
			// The end of a container kills what runs in it, and is not always noticed first.
			result.ContainerEnded = result.ContainerEnded || !result.TimedOut && s.ended(ctx, req.ContainerID)
		}
		return result
	}
}

func (s *hooks) sleep(ctx context.Context, d time.Duration) error {
	timer := s.host.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hookResult is the result of an action that ended with err. An exec of which the runtime told no end is interrupted.
func hookResult(ctx context.Context, result *host.HookResult, err error) *host.HookResult {
	cut := context.Cause(ctx)
	switch {
	case err == nil:
		return result
	case errors.Is(cut, errHookTime):
		return &host.HookResult{ExitCode: noExitCode, TimedOut: true}
	case errors.Is(cut, errHookContainer):
		return &host.HookResult{ExitCode: noExitCode, Output: errHookContainer.Error(), ContainerEnded: true}
	case cut != nil || cri.OutcomeUnknown(err):
		return &host.HookResult{ExitCode: noExitCode, Interrupted: true, Output: truncate(err.Error())}
	default:
		return &host.HookResult{ExitCode: noExitCode, Output: truncate(err.Error())}
	}
}

func hookOutput(resp *runtimeapi.ExecSyncResponse) string {
	out := resp.GetStdout()
	if len(out) < maxHookOutput {
		out = append(slices.Clip(out), resp.GetStderr()...)
	}
	return truncate(string(out))
}
