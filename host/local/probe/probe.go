// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"

	"github.com/tombolo-dev/tombolo/host"
)

// maxOutput is how much of an answer is kept, as in the kubelet.
const maxOutput = 10 << 10

// Try makes one try. The end of ctx is an error and says nothing of the program, unlike the end of the request's time.
func Try(ctx context.Context, req host.ProbeRequest) (*host.ProbeResult, error) {
	if err := check(req); err != nil {
		return nil, err
	}
	var result *host.ProbeResult
	var err error
	effort, end := withoutDeadline(ctx)
	defer end()
	switch {
	case req.HTTPGet != nil:
		result, err = tryHTTP(effort, req.HTTPGet, req.Timeout)
	case req.TCP != nil:
		result = tryTCP(effort, req.TCP, req.Timeout)
	default:
		result = tryGRPC(effort, req.GRPC, req.Timeout)
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	}
	result.Output = clean(result.Output)
	return result, nil
}

// withoutDeadline returns a context that ends after ctx did, and has no deadline: a dialer takes one for that of the
// connection, which ends first and then looks like a program that does not answer.
func withoutDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	effort, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	return effort, func() {
		stop()
		cancel()
	}
}

func check(req host.ProbeRequest) error {
	var problems []error
	actions := 0
	if req.HTTPGet != nil {
		actions++
		problems = append(problems, CheckHTTP(req.HTTPGet))
	}
	if req.TCP != nil {
		actions++
		problems = append(problems, checkTarget(req.TCP.Host, req.TCP.Port))
	}
	if req.GRPC != nil {
		actions++
		problems = append(problems, checkTarget(req.GRPC.Host, req.GRPC.Port))
	}
	if actions != 1 {
		return fmt.Errorf("a probe must have exactly one action that this host knows, not %d: %w", actions, errdefs.ErrInvalidArgument)
	}
	if req.Timeout <= 0 {
		return fmt.Errorf("probe timeout %s is not positive: %w", req.Timeout, errdefs.ErrInvalidArgument)
	}
	return problems[0]
}

func checkTarget(host string, port int32) error {
	switch {
	case host == "":
		return fmt.Errorf("the host to connect to is empty: %w", errdefs.ErrInvalidArgument)
	case port < 1 || port > 65535:
		return fmt.Errorf("port %d is not from 1 to 65535: %w", port, errdefs.ErrInvalidArgument)
	}
	return nil
}

func address(host string, port int32) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }

func failure(text string) *host.ProbeResult {
	return &host.ProbeResult{Outcome: host.ProbeFailure, Output: text}
}

// clean cuts text to what is kept of it, and makes it valid UTF-8.
func clean(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxOutput)], "\uFFFD")
}

// tryTCP connects and closes.
func tryTCP(ctx context.Context, req *host.TCPRequest, timeout time.Duration) *host.ProbeResult {
	dialer := newDialer()
	dialer.Timeout = timeout
	conn, err := dialer.DialContext(ctx, "tcp", address(req.Host, req.Port))
	if err != nil {
		return failure(err.Error())
	}
	_ = conn.Close() // it was accepted, that is all that was asked
	return &host.ProbeResult{Outcome: host.ProbeSuccess}
}
