// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"k8s.io/apimachinery/pkg/types"
)

// Fault makes calls of the host or the API go wrong, as fakecri.Fault does those of the runtime.
type Fault struct {
	// Method is the name of the method; every method if empty.
	Method string
	// UID narrows it down to one pod.
	UID types.UID
	// Times ends the fault after that many hits; 0 is never.
	Times int
	// Delay is waited first, or until the fault ends.
	Delay time.Duration
	// Hang waits for the end of the call's context or of the fault.
	Hang bool
	// Err is returned instead of an answer.
	Err error
	// Lost lets the call have its effect and loses the answer.
	Lost bool
}

type injection struct {
	Fault
	hits    int
	removed chan struct{}
}

// gate is what every call to a faulty part goes through: faults, and a link that can be cut.
type gate struct {
	mu       sync.Mutex
	faults   []*injection
	down     bool
	inflight map[*context.CancelCauseFunc]struct{}
}

var errUnreachable = fmt.Errorf("%w: the link is cut", errdefs.ErrUnavailable)

// inject puts a fault into effect and returns how to end it.
func (g *gate) inject(f Fault) (remove func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := &injection{Fault: f, removed: make(chan struct{})}
	g.faults = append(g.faults, i)
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.faults = slices.DeleteFunc(g.faults, func(o *injection) bool { return o == i })
		close(i.removed)
	})
}

// cut makes every call, also those in flight, end with Unavailable until mend.
func (g *gate) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.down = true
	for cancel := range g.inflight {
		(*cancel)(errUnreachable)
	}
}

func (g *gate) mend() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.down = false
}

// call lets faults strike around an effect.
func (g *gate) call(ctx context.Context, method string, uid types.UID, effect func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	i := g.enter(&cancel, method, uid)
	defer g.leave(&cancel)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if i == nil {
		return explained(ctx, effect(ctx))
	}
	if err := i.hold(ctx); err != nil {
		return err
	}
	switch {
	case i.Lost:
		if err := effect(ctx); err != nil {
			return explained(ctx, err)
		}
		return fmt.Errorf("%w: the answer was lost", errdefs.ErrUnavailable)
	case i.Err != nil:
		return i.Err
	default:
		return explained(ctx, effect(ctx))
	}
}

// hold waits as the fault wants.
func (i *injection) hold(ctx context.Context) error {
	if i.Delay > 0 {
		timer := time.NewTimer(i.Delay)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
		case <-i.removed:
		}
	}
	if i.Hang {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-i.removed:
		}
	}
	return nil
}

// explained tells a call that the cut of the link ended from one that its caller gave up.
func explained(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (g *gate) enter(cancel *context.CancelCauseFunc, method string, uid types.UID) *injection {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inflight == nil {
		g.inflight = map[*context.CancelCauseFunc]struct{}{}
	}
	g.inflight[cancel] = struct{}{}
	if g.down {
		(*cancel)(errUnreachable)
		return nil
	}
	for _, i := range g.faults {
		if (i.Method != "" && i.Method != method) || (i.UID != "" && i.UID != uid) || (i.Times > 0 && i.hits >= i.Times) {
			continue
		}
		i.hits++
		return i
	}
	return nil
}

func (g *gate) leave(cancel *context.CancelCauseFunc) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.inflight, cancel)
}
