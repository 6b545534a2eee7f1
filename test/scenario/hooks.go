// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/host"
)

// hookKey names one run of a hook.
type hookKey struct {
	uid  types.UID
	id   string
	kind string
}

// hookRun is a run that was begun. It ends by itself when its time comes: nothing works in the background.
type hookRun struct {
	container string
	began     time.Time
	due       time.Time // its own end
	deadline  time.Time // zero is none
	code      int32
	result    *host.HookResult
	// moved is closed when the deadline comes closer or the process of the host dies.
	moved chan struct{}
}

// hookManner is how long the hooks of a container take, and how they end.
type hookManner struct {
	uid       types.UID
	container string
	takes     time.Duration
	code      int32
}

// OnHook says how long the hooks of a container take and with which code they end. The newest manner counts.
func (h *Host) OnHook(uid types.UID, container string, takes time.Duration, code int32) {
	h.state.Lock()
	defer h.state.Unlock()
	h.manners = append(h.manners, hookManner{uid, container, takes, code})
}

// Die is the sudden end of the host's process: hooks that run end, and nobody will know how.
func (h *Host) Die() {
	h.cut()
	h.state.Lock()
	defer h.state.Unlock()
	for key, run := range h.hooks {
		if run.result == nil {
			h.settle(key, run)
		}
		if run.result == nil {
			h.finish(key, run, time.Now(), host.HookResult{ExitCode: -1, Interrupted: true}, "interrupted")
		}
	}
}

// RunHook keeps the promises of host.HookRunner.
func (h *Host) RunHook(ctx context.Context, req host.HookRequest) (result *host.HookResult, err error) {
	err = h.call(ctx, "RunHook", req.PodUID, func(ctx context.Context) error {
		key := hookKey{req.PodUID, req.ContainerID, req.Kind}
		run, err := h.join(key, req)
		if err != nil {
			return err
		}
		result, err = h.await(ctx, key, run)
		return err
	})
	return result, err
}

// join begins the run, or finds the one there is and moves its deadline closer.
func (h *Host) join(key hookKey, req host.HookRequest) (*hookRun, error) {
	h.state.Lock()
	defer h.state.Unlock()
	now := time.Now()
	run := h.hooks[key]
	if run == nil && req.JoinOnly {
		return nil, fmt.Errorf("hook %s of container %s was never begun: %w", req.Kind, req.ContainerID, errdefs.ErrNotFound)
	}
	if run == nil {
		c, ok := h.runtime.Container(req.ContainerID)
		if !ok {
			return nil, fmt.Errorf("container %s: %w", req.ContainerID, errdefs.ErrNotFound)
		}
		if !c.Alive && req.Kind != host.HookPreStopOnExit {
			return nil, fmt.Errorf("container %s does not run: %w", req.ContainerID, errdefs.ErrFailedPrecondition)
		}
		run = &hookRun{container: c.Name, began: now, moved: make(chan struct{})}
		takes := time.Duration(0)
		for _, m := range h.manners {
			if m.uid == key.uid && (m.container == "" || m.container == c.Name) {
				takes, run.code = m.takes, m.code
			}
		}
		if req.Sleep != nil {
			takes = *req.Sleep
		}
		run.due = now.Add(takes)
		h.hooks[key] = run
		h.tell(key, run, now, "begins")
	}
	if d := now.Add(req.Timeout); req.Timeout > 0 && (run.deadline.IsZero() || d.Before(run.deadline)) {
		run.deadline = d
		close(run.moved)
		run.moved = make(chan struct{})
	}
	return run, nil
}

// await returns when the run has ended.
func (h *Host) await(ctx context.Context, key hookKey, run *hookRun) (*host.HookResult, error) {
	for {
		h.state.Lock()
		h.settle(key, run)
		result, moved, end := run.result, run.moved, run.end()
		h.state.Unlock()
		if result != nil {
			return result, nil
		}
		if err := h.sleepUntil(ctx, end, moved, key.id); err != nil {
			return nil, err
		}
	}
}

// sleepUntil returns at the time, when moved is closed, when the container ends, or with the error of ctx.
func (h *Host) sleepUntil(ctx context.Context, end time.Time, moved <-chan struct{}, id string) error {
	until, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	go func() {
		select {
		case <-moved:
			cancel()
		case <-until.Done():
		}
	}()
	_ = h.runtime.Wait(until, func() bool { return !h.lives(id) })
	return ctx.Err()
}

func (h *Host) lives(id string) bool {
	c, ok := h.runtime.Container(id)
	return ok && c.Alive
}

// end is when the run ends if nothing happens before.
func (r *hookRun) end() time.Time {
	if !r.deadline.IsZero() && r.deadline.Before(r.due) {
		return r.deadline
	}
	return r.due
}

// settle ends a run whose time has come. The state is locked.
func (h *Host) settle(key hookKey, run *hookRun) {
	if run.result != nil {
		return
	}
	end := run.end()
	if c, ok := h.runtime.Container(key.id); !ok || !c.Alive {
		at := time.Now()
		if ok {
			at = c.FinishedAt
		}
		if at.Before(end) {
			h.finish(key, run, at, host.HookResult{ExitCode: -1}, "ends with its container")
			return
		}
	}
	switch {
	case end.After(time.Now()):
	case end.Before(run.due):
		h.finish(key, run, end, host.HookResult{ExitCode: -1, TimedOut: true}, "times out")
	default:
		h.finish(key, run, end, host.HookResult{ExitCode: run.code}, fmt.Sprintf("ends code=%d", run.code))
	}
}

func (h *Host) finish(key hookKey, run *hookRun, at time.Time, r host.HookResult, how string) {
	run.result = &r
	close(run.moved)
	run.moved = make(chan struct{})
	h.tell(key, run, at, how)
}

func (h *Host) tell(key hookKey, run *hookRun, at time.Time, how string) {
	h.trace.add(at, Event{
		Text: fmt.Sprintf("hook %s %s/%s %s", key.kind, h.pods[key.uid], run.container, how),
		UID:  key.uid, Container: run.container, ID: key.id, Detail: key.kind,
	})
}
