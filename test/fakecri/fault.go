// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package fakecri

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/cri"
)

// Fault makes calls go wrong. The parts happen in this order: Delay, Hang, Err (before the effect unless Lost is set).
type Fault struct {
	// Method is the CRI's name of the method ("RunPodSandbox", "ContainerStatus"); every method if empty.
	Method string
	// Selector narrows it down to calls about these containers, pods or images.
	Selector Selector
	// Skip lets that many matching calls through first. Times ends the fault after that many hits; 0 is never.
	Skip, Times int
	// Delay is waited first, or until Remove.
	Delay time.Duration
	// Hang waits for the end of the call's context or for Remove.
	Hang bool
	// Err is returned instead of an answer; its errdefs class crosses the wire.
	Err error
	// Lost lets the call have its effect and loses the answer: Err is returned, or Unavailable if it is nil.
	Lost bool
}

// Injection is a fault in effect.
type Injection struct {
	r       *Runtime
	fault   Fault
	seen    int
	hits    int
	reached chan struct{}
	removed chan struct{}
}

// Inject puts a fault into effect. Of several that match a call, the oldest counts.
func (r *Runtime) Inject(f Fault) *Injection {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := &Injection{r: r, fault: f, reached: make(chan struct{}), removed: make(chan struct{})}
	r.faults = append(r.faults, i)
	return i
}

// Remove ends the fault, and lets calls that hang because of it go on.
func (i *Injection) Remove() {
	i.r.mu.Lock()
	defer i.r.mu.Unlock()
	if n := slices.Index(i.r.faults, i); n >= 0 {
		i.r.faults = slices.Delete(i.r.faults, n, n+1)
		close(i.removed)
	}
}

// Hits returns how often the fault struck.
func (i *Injection) Hits() int {
	i.r.mu.Lock()
	defer i.r.mu.Unlock()
	return i.hits
}

// Reached is closed when the fault strikes for the first time.
func (i *Injection) Reached() <-chan struct{} { return i.reached }

// Call is one call that arrived.
type Call struct {
	Method string
	Selector
	// At is when it arrived, by the runtime's clock.
	At time.Time
	// Grace is the timeout of StopContainer.
	Grace time.Duration
	// Done says that it was answered, Err how.
	Done bool
	Err  error
}

// Calls returns the calls of the named methods (all if none is named) in order of arrival.
func (r *Runtime) Calls(methods ...string) []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Call
	for _, c := range r.calls {
		if len(methods) == 0 || slices.Contains(methods, c.Method) {
			out = append(out, c)
		}
	}
	return out
}

// errCut is why calls end when the link is cut.
var errCut = fmt.Errorf("%w: the link is cut", errdefs.ErrUnavailable)

// Cut makes every call, also those in flight, fail with Unavailable until Mend. Containers live on.
func (r *Runtime) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = true
	for _, cancel := range r.inflight {
		cancel(errCut)
	}
}

// Mend ends a Cut.
func (r *Runtime) Mend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = false
}

// Reachable returns nil unless there is a Cut.
func (r *Runtime) Reachable() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		return errCut
	}
	return nil
}

// intercept is around every call, direct or over gRPC.
func (r *Runtime) intercept(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (any, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	call, done := r.begin(path.Base(info.FullMethod), req, cancel)
	resp, err := r.answer(ctx, call, func() (any, error) { return handler(ctx, req) })
	if errors.Is(err, context.Canceled) && errors.Is(context.Cause(ctx), errCut) {
		err = errCut
	}
	done(err)
	if err != nil {
		return nil, errgrpc.ToGRPC(err)
	}
	return resp, nil
}

// begin records the call and returns how to record its end.
func (r *Runtime) begin(method string, req any, cancel context.CancelCauseFunc) (Call, func(error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	call := Call{Method: method, Selector: r.target(req), At: r.clock.Now()}
	if stop, ok := req.(*runtimeapi.StopContainerRequest); ok {
		call.Grace = time.Duration(stop.GetTimeout()) * time.Second
	}
	r.tell(Event{Kind: CallArrived, Selector: call.Selector, Method: method, Grace: call.Grace})
	n := len(r.calls)
	r.calls = append(r.calls, call)
	r.inflight[n] = cancel
	if r.down {
		cancel(errCut)
	}
	return call, func(err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.inflight, n)
		r.calls[n].Done, r.calls[n].Err = true, err
		r.wake()
	}
}

// answer lets a fault strike around the effect.
func (r *Runtime) answer(ctx context.Context, call Call, effect func() (any, error)) (any, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	i := r.strike(call)
	if i == nil {
		return effect()
	}
	if i.fault.Delay > 0 {
		if err := r.pause(ctx, r.clock.Now().Add(i.fault.Delay), i.removed); err != nil {
			return nil, err
		}
	}
	if i.fault.Hang {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-i.removed:
		}
	}
	switch {
	case i.fault.Lost:
		if _, err := effect(); err != nil {
			return nil, err
		}
		if i.fault.Err != nil {
			return nil, i.fault.Err
		}
		return nil, fmt.Errorf("%w: the answer was lost", errdefs.ErrUnavailable)
	case i.fault.Err != nil:
		return nil, i.fault.Err
	default:
		return effect()
	}
}

// strike returns the fault that the call runs into, if any.
func (r *Runtime) strike(call Call) *Injection {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range r.faults {
		f := i.fault
		if (f.Method != "" && f.Method != call.Method) || !f.Selector.matches(call.Selector) {
			continue
		}
		i.seen++
		if i.seen <= f.Skip || (f.Times > 0 && i.hits >= f.Times) {
			continue
		}
		i.hits++
		if i.hits == 1 {
			close(i.reached)
		}
		return i
	}
	return nil
}

// target finds out what a request is about. The lock is held.
func (r *Runtime) target(req any) Selector {
	var t Selector
	switch req := req.(type) {
	case interface{ GetContainerId() string }:
		t.ID = req.GetContainerId()
		if c := r.containers[t.ID]; c != nil {
			t.UID, t.Container, t.Image = c.uid(), c.name(), c.config.GetImage().GetImage()
		}
	case *runtimeapi.RunPodSandboxRequest:
		t.UID = types.UID(req.GetConfig().GetMetadata().GetUid())
	case *runtimeapi.CreateContainerRequest:
		t.ID = req.GetPodSandboxId()
		t.UID = types.UID(req.GetSandboxConfig().GetMetadata().GetUid())
		t.Container = req.GetConfig().GetMetadata().GetName()
		t.Image = req.GetConfig().GetImage().GetImage()
	case interface{ GetPodSandboxId() string }:
		t.ID = req.GetPodSandboxId()
		if s := r.sandboxes[t.ID]; s != nil {
			t.UID = s.uid()
		}
	case interface{ GetImage() *runtimeapi.ImageSpec }:
		t.Image = req.GetImage().GetImage()
	case *runtimeapi.ListPodSandboxRequest:
		t.UID = types.UID(req.GetFilter().GetLabelSelector()[cri.LabelPodUID])
	case *runtimeapi.ListContainersRequest:
		t.UID = types.UID(req.GetFilter().GetLabelSelector()[cri.LabelPodUID])
	}
	return t
}
