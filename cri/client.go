// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"
)

// DefaultTimeout is the kubelet's default runtimeRequestTimeout, the deadline of every unary call that has no other.
const DefaultTimeout = 2 * time.Minute

// MaxMessageBytes is the largest message accepted from the runtime, as in the kubelet's own client (lists of a full
// node do not fit gRPC's 4 MiB).
const MaxMessageBytes = 16 << 20

// apiVersion is what the kubelet sends as its side's version; runtimes answer with theirs and do not compare.
const apiVersion = "0.1.0"

// Client calls the runtime and image services of one container runtime.
//
// Its errors carry the runtime's own text without a prefix, because events show it to users and because some runtimes
// begin it with a reason ("SignatureValidationFailed: …"); the caller adds what it was doing. Their class is one of
// github.com/containerd/errdefs, see OutcomeUnknown for those that leave open whether the call had an effect.
type Client struct {
	runtime  runtimeapi.RuntimeServiceClient
	images   runtimeapi.ImageServiceClient
	identity Identity
	timeout  time.Duration
	observe  Observer
	clock    clock.PassiveClock
}

// Observer is told the kubelet's name of each finished operation (such as "run_podsandbox"), how long it took and how
// it ended. It is called by the goroutine that made the call.
type Observer interface {
	Observe(operation string, took time.Duration, err error)
}

// ClientOptions are what a Client needs besides its connection.
type ClientOptions struct {
	// Identity selects what lists return: nothing that another node or cluster owns.
	Identity Identity
	// Timeout is the deadline of a unary call, DefaultTimeout if zero.
	Timeout time.Duration
	// Observer may be nil.
	Observer Observer
	// Clock measures how long calls take; the real clock if nil.
	Clock clock.PassiveClock
}

// NewClient returns a Client on conn. The connection stays the caller's to close.
func NewClient(conn grpc.ClientConnInterface, o ClientOptions) *Client {
	c := &Client{
		runtime:  runtimeapi.NewRuntimeServiceClient(conn),
		images:   runtimeapi.NewImageServiceClient(conn),
		identity: o.Identity,
		timeout:  o.Timeout,
		observe:  o.Observer,
		clock:    o.Clock,
	}
	if c.timeout <= 0 {
		c.timeout = DefaultTimeout
	}
	if c.clock == nil {
		c.clock = clock.RealClock{}
	}
	return c
}

// Version returns the runtime's name and version.
func (c *Client) Version(ctx context.Context) (*runtimeapi.VersionResponse, error) {
	return call(ctx, c, "version", c.timeout, c.runtime.Version, &runtimeapi.VersionRequest{Version: apiVersion})
}

// Status returns the runtime's conditions and handlers, without the verbose part.
func (c *Client) Status(ctx context.Context) (*runtimeapi.StatusResponse, error) {
	return call(ctx, c, "status", c.timeout, c.runtime.Status, &runtimeapi.StatusRequest{})
}

// RuntimeConfig returns what the runtime tells its client to use, such as the cgroup driver.
func (c *Client) RuntimeConfig(ctx context.Context) (*runtimeapi.RuntimeConfigResponse, error) {
	return call(ctx, c, "runtime_config", c.timeout, c.runtime.RuntimeConfig, &runtimeapi.RuntimeConfigRequest{})
}

// noDeadline as a timeout leaves the end of a call to the caller's context.
const noDeadline time.Duration = 0

// call makes one RPC: it bounds its time, accepts large answers, turns the error into a class and tells the observer.
func call[Req, Resp any](
	ctx context.Context, c *Client, operation string, timeout time.Duration,
	rpc func(context.Context, Req, ...grpc.CallOption) (Resp, error), req Req,
) (Resp, error) {
	callCtx := ctx
	if timeout > noDeadline {
		var cancel context.CancelFunc
		callCtx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	start := c.clock.Now()
	resp, err := rpc(callCtx, req, grpc.MaxCallRecvMsgSize(MaxMessageBytes))
	err = native(ctx, err, timeout)
	if c.observe != nil {
		c.observe.Observe(operation, c.clock.Since(start), err)
	}
	return resp, err
}
