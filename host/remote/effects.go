// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// effects runs the calls that change what runs on the machine. Such a call goes on when its caller is gone: the runtime
// takes back what it has begun when a call is cancelled, so that a node process that dies while a container starts would
// take the container, whose program may be running already, with it. The call keeps its caller's deadline.
//
// Whoever asks for the same while a call is under way gets the answer of that call. The runtime would refuse the second one,
// and the caller could not know that what it wants is about to happen.
type effects struct {
	calls sync.WaitGroup
	life  context.Context // ends when the calls have to end, too
	end   context.CancelFunc

	mu      sync.Mutex
	running map[string]*effect
	stopped bool
}

// effect is one call; resp and err are valid when done is closed.
type effect struct {
	done chan struct{}
	resp any
	err  error
}

func newEffects() *effects {
	e := &effects{running: map[string]*effect{}}
	e.life, e.end = context.WithCancel(context.Background())
	return e
}

// stop lets no call begin any more, cancels those that are still under way when ctx ends, and returns when all have ended.
func (e *effects) stop(ctx context.Context) {
	e.mu.Lock()
	e.stopped = true
	e.mu.Unlock()
	cancel := context.AfterFunc(ctx, e.end)
	e.calls.Wait()
	cancel()
	e.end()
}

// perform makes a call, or joins the one under way with the same key.
func perform[Req, Resp any](
	ctx context.Context, e *effects, key string, req *Req,
	call func(context.Context, *Req, ...grpc.CallOption) (*Resp, error),
) (*Resp, error) {
	running := e.begin(ctx, key, func(ctx context.Context) (any, error) { return call(ctx, req) })
	select {
	case <-running.done:
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	resp, _ := running.resp.(*Resp)
	return resp, running.err
}

func (e *effects) begin(caller context.Context, key string, call func(context.Context) (any, error)) *effect {
	e.mu.Lock()
	defer e.mu.Unlock()
	if running, joined := e.running[key]; joined {
		return running
	}
	running := &effect{done: make(chan struct{})}
	if e.stopped {
		running.err = status.Error(codes.Unavailable, "the host process is stopping")
		close(running.done)
		return running
	}
	e.running[key] = running
	e.calls.Go(func() {
		defer close(running.done)
		ctx, cancel := e.detach(caller)
		defer cancel()
		running.resp, running.err = call(ctx)
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.running, key)
	})
	return running
}

// detach returns a context with the deadline of the caller's that ends with the server instead of with the caller.
func (e *effects) detach(caller context.Context) (context.Context, context.CancelFunc) {
	ctx := context.WithoutCancel(caller)
	var cancel context.CancelFunc
	if deadline, ok := caller.Deadline(); ok {
		ctx, cancel = context.WithDeadline(ctx, deadline)
	} else {
		ctx, cancel = context.WithCancel(ctx)
	}
	stop := context.AfterFunc(e.life, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// The keys name what a call changes; a stop with another grace period is another call.

func sandboxKey(r *runtimeapi.RunPodSandboxRequest) string {
	m := r.GetConfig().GetMetadata()
	return fmt.Sprintf("run sandbox %q %q %q %d", m.GetNamespace(), m.GetName(), m.GetUid(), m.GetAttempt())
}

func containerKey(r *runtimeapi.CreateContainerRequest) string {
	m := r.GetConfig().GetMetadata()
	return fmt.Sprintf("create container %q %q %d", r.GetPodSandboxId(), m.GetName(), m.GetAttempt())
}

func stopKey(r *runtimeapi.StopContainerRequest) string {
	return fmt.Sprintf("stop container %q %d", r.GetContainerId(), r.GetTimeout())
}
