// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/tombolo-dev/tombolo/host"
)

// tryGRPC asks a server for its health. It tries to connect until the time is up, because a server may just be starting.
func tryGRPC(ctx context.Context, req *host.GRPCRequest, timeout time.Duration) *host.ProbeResult {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	target := address(req.Host, req.Port)
	conn, err := grpc.NewClient("passthrough:///"+target,
		grpc.WithUserAgent(req.UserAgent),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return newDialer().DialContext(ctx, "tcp", address)
		}))
	if err != nil {
		return failure(fmt.Sprintf("error: failed to connect service at %q: %+v", target, err))
	}
	defer conn.Close()
	if err := connect(ctx, conn); err != nil {
		return failure(fmt.Sprintf("timeout: failed to connect service %q within %v: %+v", target, timeout, err))
	}
	resp, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: req.Service})
	switch {
	case status.Code(err) == codes.Unimplemented:
		return failure("error: this server does not implement the grpc health protocol (grpc.health.v1.Health): " + status.Convert(err).Message())
	case status.Code(err) == codes.DeadlineExceeded:
		return failure(fmt.Sprintf("timeout: health rpc did not complete within %v", timeout))
	case err != nil:
		return failure(fmt.Sprintf("error: health rpc probe failed: %+v", err))
	case resp.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING:
		return failure(fmt.Sprintf("service unhealthy (responded with %q)", resp.GetStatus().String()))
	}
	return &host.ProbeResult{Outcome: host.ProbeSuccess, Output: "service healthy"}
}

// connect returns when the connection is ready, or ctx's error.
func connect(ctx context.Context, conn *grpc.ClientConn) error {
	for {
		state := conn.GetState()
		switch state {
		case connectivity.Ready:
			return nil
		case connectivity.Idle:
			conn.Connect()
		}
		if !conn.WaitForStateChange(ctx, state) {
			return ctx.Err()
		}
	}
}
