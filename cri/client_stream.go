// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ExecSync runs a command in a container and returns its output and exit code. The runtime kills it after timeout,
// rounded up to whole seconds; with zero it may run for ever and only ctx ends the call.
func (c *Client) ExecSync(
	ctx context.Context, id string, cmd []string, timeout time.Duration,
) (*runtimeapi.ExecSyncResponse, error) {
	timeout = max(timeout, 0)
	deadline := noDeadline
	if timeout > 0 {
		deadline = timeout + c.timeout
	}
	req := &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: cmd, Timeout: wholeSeconds(timeout)}
	return call(ctx, c, "exec_sync", deadline, c.runtime.ExecSync, req)
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
