// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ErrCommandTimedOut says that the runtime answered: it killed the command because its time was up.
var ErrCommandTimedOut = errors.New("command timed out")

// ExecSync runs a command in a container and returns its output and exit code. The runtime kills it after timeout,
// rounded up to whole seconds, and the error is ErrCommandTimedOut then, which OutcomeUnknown is false for; with zero it may
// run for ever and only ctx ends the call.
func (c *Client) ExecSync(
	ctx context.Context, id string, cmd []string, timeout time.Duration,
) (*runtimeapi.ExecSyncResponse, error) {
	timeout = max(timeout, 0)
	deadline := noDeadline
	if timeout > 0 {
		deadline = timeout + c.timeout
	}
	req := &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: cmd, Timeout: wholeSeconds(timeout)}
	resp, err := call(ctx, c, "exec_sync", deadline, c.runtime.ExecSync, req)
	if errdefs.IsDeadlineExceeded(err) && ctx.Err() == nil && toldTimeout(err, req.GetTimeout()) {
		return nil, fmt.Errorf("%w after %ds", ErrCommandTimedOut, req.GetTimeout())
	}
	return resp, err
}

// toldTimeout says whether the error is containerd's answer that a command had its time. A call that was not answered in
// time has the same class and only other words.
func toldTimeout(err error, timeout int64) bool {
	return timeout > 0 && strings.Contains(err.Error(), fmt.Sprintf("timeout %s exceeded", time.Duration(timeout)*time.Second))
}

// Exec prepares a streaming exec and returns its URL on the runtime's streaming server. The URL is good for one use
// within a minute.
func (c *Client) Exec(ctx context.Context, req *runtimeapi.ExecRequest) (string, error) {
	resp, err := call(ctx, c, "exec", c.timeout, c.runtime.Exec, req)
	return resp.GetUrl(), err
}

// Attach prepares a streaming attach and returns its URL, as Exec does.
func (c *Client) Attach(ctx context.Context, req *runtimeapi.AttachRequest) (string, error) {
	resp, err := call(ctx, c, "attach", c.timeout, c.runtime.Attach, req)
	return resp.GetUrl(), err
}

// PortForward prepares a port-forward into a sandbox and returns its URL, as Exec does.
func (c *Client) PortForward(ctx context.Context, req *runtimeapi.PortForwardRequest) (string, error) {
	resp, err := call(ctx, c, "port_forward", c.timeout, c.runtime.PortForward, req)
	return resp.GetUrl(), err
}
