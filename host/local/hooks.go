// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/host"
)

// runningCheckTimeout bounds the question whether the container of a hook runs.
const runningCheckTimeout = 10 * time.Second

// hookKey names one hook of one container.
type hookKey struct {
	uid         types.UID
	containerID string
	kind        string
}

// hooks runs each hook once. A run is in the table from before its record is written until after its result is, so at
// any moment a hook is in the table, in a record, or was never begun:
//
//	(none) ── record says begun ──► running ── record says ended ──► ended
//	                                   └────── process died ───────► interrupted
type hooks struct {
	host   *Host
	ctx    context.Context // the life of the runs, ended by close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	closed bool
	table  map[hookKey]*hookRun
}

// hookRun is one run that is going on, or whose result could not be recorded.
type hookRun struct {
	done   chan struct{}    // closed when result and err are set
	result *host.HookResult // nil if the hook was not begun
	err    error            // why it was not begun

	mu       sync.Mutex
	deadline time.Time     // zero is never
	moved    chan struct{} // gets a value when deadline was moved
}

func newHooks(h *Host) *hooks {
	ctx, cancel := context.WithCancel(context.Background())
	return &hooks{host: h, ctx: ctx, cancel: cancel, table: make(map[hookKey]*hookRun)}
}

// RunHook runs a hook, joins its run, or returns its recorded result.
func (h *Host) RunHook(ctx context.Context, req host.HookRequest) (*host.HookResult, error) {
	if err := checkHook(req); err != nil {
		return nil, err
	}
	run, err := h.hooks.join(req)
	if err != nil {
		return nil, err
	}
	select {
	case <-run.done:
		return run.result, run.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func checkHook(req host.HookRequest) error {
	if err := errors.Join(checkUID(req.PodUID), checkContainerID(req.ContainerID)); err != nil {
		return err
	}
	switch {
	case req.Kind != host.HookPreStop && req.Kind != host.HookPostStart && req.Kind != host.HookPreStopOnExit:
		return fmt.Errorf("hook kind %q is not known: %w", req.Kind, errdefs.ErrInvalidArgument)
	case req.Timeout < 0:
		return fmt.Errorf("hook timeout %s is negative: %w", req.Timeout, errdefs.ErrInvalidArgument)
	}
	return checkAction(req)
}

// deadline returns when a hook with the timeout must end, zero if never.
func (s *hooks) deadline(timeout time.Duration) time.Time {
	if timeout == 0 {
		return time.Time{}
	}
	return s.host.clock.Now().Add(timeout)
}

// join returns the run of the hook, beginning it if there is none.
func (s *hooks) join(req host.HookRequest) (*hookRun, error) {
	key := hookKey{uid: req.PodUID, containerID: req.ContainerID, kind: req.Kind}
	deadline := s.deadline(req.Timeout)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("the host process is stopping: %w", errdefs.ErrUnavailable)
	}
	if run, ok := s.table[key]; ok {
		run.shorten(deadline)
		return run, nil
	}
	if req.JoinOnly {
		return s.recorded(key)
	}
	run := &hookRun{done: make(chan struct{}), deadline: deadline, moved: make(chan struct{}, 1)}
	s.table[key] = run
	s.wg.Go(func() { s.execute(key, req, run) })
	return run, nil
}

// recorded returns the run that is on record. With the lock held, none can be begun meanwhile.
func (s *hooks) recorded(key hookKey) (*hookRun, error) {
	record, err := s.host.readHookRecord(key)
	switch {
	case err != nil:
		return nil, err
	case record == nil:
		return nil, fmt.Errorf("hook %q of container %s was never begun: %w", key.kind, key.containerID, errdefs.ErrNotFound)
	}
	run := &hookRun{done: make(chan struct{}), result: record.result()}
	close(run.done)
	return run, nil
}

// shorten moves the deadline of a run if the new one is earlier.
func (r *hookRun) shorten(deadline time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if deadline.IsZero() || (!r.deadline.IsZero() && !deadline.Before(r.deadline)) {
		return
	}
	r.deadline = deadline
	select {
	case r.moved <- struct{}{}:
	default: // the run has not looked at the last move yet
	}
}

// left returns how much time the run has, if its time is limited.
func (r *hookRun) left(clk clock.PassiveClock) (left time.Duration, limited bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.deadline.Sub(clk.Now()), !r.deadline.IsZero()
}

// execute carries a run to its end. The run leaves the table unless its result exists nowhere else.
func (s *hooks) execute(key hookKey, req host.HookRequest, run *hookRun) {
	result, recorded, err := s.perform(key, req, run)
	run.result, run.err = result, err
	if recorded {
		s.mu.Lock()
		delete(s.table, key)
		s.mu.Unlock()
	}
	close(run.done)
}

// perform returns the result of a hook and whether it is on record, or why the hook was not begun.
func (s *hooks) perform(key hookKey, req host.HookRequest, run *hookRun) (result *host.HookResult, recorded bool, err error) {
	record, err := s.host.readHookRecord(key)
	if err != nil {
		return nil, true, err
	}
	if record != nil {
		return record.result(), true, nil
	}
	if req.Kind != host.HookPreStopOnExit {
		if err := s.checkRunning(key.containerID); err != nil {
			return nil, true, err
		}
	}
	record = newHookRecord(req, s.host.clock.Now())
	if err := s.host.writeHookRecord(key, record); err != nil {
		return nil, true, err
	}
	logger := s.host.logger.With("uid", key.uid, "container_id", key.containerID, "hook", key.kind)
	logger.Info("hook begins")
	result = s.act(req, run)
	if s.ctx.Err() != nil && result.Interrupted {
		logger.Warn("hook was interrupted by the end of the host process")
		return result, true, nil // the record that it was begun says the same
	}
	record.end(s.host.clock.Now(), result)
	logger.Info("hook ended", "exit_code", result.ExitCode, "timed_out", result.TimedOut, "interrupted", result.Interrupted)
	if err := s.host.writeHookRecord(key, record); err != nil {
		logger.Error("the end of a hook cannot be recorded, it stays in memory", "error", err)
		return result, false, nil
	}
	return result, true, nil
}

// checkRunning refuses a hook for a container that does not run: it would be on record as begun for nothing.
func (s *hooks) checkRunning(containerID string) error {
	ctx, cancel := context.WithTimeout(s.ctx, runningCheckTimeout)
	defer cancel()
	status, err := s.host.runtime.ContainerStatus(ctx, containerID)
	if err != nil {
		return fmt.Errorf("looking up the container of a hook: %w", err)
	}
	if status.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return fmt.Errorf("container %s is not running: %w", containerID, errdefs.ErrFailedPrecondition)
	}
	return nil
}

// running says whether a hook of the pod is going on.
func (s *hooks) running(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, run := range s.table {
		if key.uid != uid {
			continue
		}
		select {
		case <-run.done: // only its result is kept
		default:
			return true
		}
	}
	return false
}

// close takes no more hooks, waits for those that run until ctx ends, and ends the rest.
func (s *hooks) close(ctx context.Context) {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	stop := context.AfterFunc(ctx, s.cancel)
	s.wg.Wait()
	stop()
	s.cancel()
}
