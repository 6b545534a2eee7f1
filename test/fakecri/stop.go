// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package fakecri

import (
	"context"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// stopCall is one StopContainer that waits, and when it will kill.
type stopCall struct{ killAt time.Time }

// StopContainer behaves as containerd's: the stop signal is sent by the first call that has a grace period and never
// again; each call kills after its own grace period, but only while it waits. A call that ends early leaves the
// container alive.
func (s runtimeServer) StopContainer(
	ctx context.Context, req *runtimeapi.StopContainerRequest,
) (*runtimeapi.StopContainerResponse, error) {
	r := s.r
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle()
	c := r.containers[req.GetContainerId()]
	if c == nil {
		return nil, notFound("container", req.GetContainerId())
	}
	if !c.alive {
		return &runtimeapi.StopContainerResponse{}, nil
	}
	now, grace := r.clock.Now(), time.Duration(req.GetTimeout())*time.Second
	if grace > 0 {
		r.terminate(c, now)
	}
	me := &stopCall{killAt: now.Add(grace)}
	if c.stops == nil {
		c.stops = map[*stopCall]struct{}{}
	}
	c.stops[me] = struct{}{}
	defer delete(c.stops, me)
	r.settle()
	for c.alive {
		due, _ := c.next()
		changed := r.changed
		r.mu.Unlock()
		err := r.pause(ctx, due, changed)
		r.mu.Lock()
		if err != nil {
			return nil, err
		}
		r.settle()
	}
	return &runtimeapi.StopContainerResponse{}, nil
}

// terminate sends the stop signal, once.
func (r *Runtime) terminate(c *container, now time.Time) {
	if c.termSent {
		return
	}
	c.termSent = true
	r.signal(c, "TERM", now)
	on := c.behaviour.OnTERM
	if on.Ignore {
		return
	}
	if at := now.Add(on.After); c.exitAt.IsZero() || at.Before(c.exitAt) {
		c.exitAt, c.exitCode, c.exitReason = at, exitTerminated, ""
		if on.ExitCode != nil {
			c.exitCode = *on.ExitCode
		}
	}
}
