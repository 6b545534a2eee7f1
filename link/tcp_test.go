// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// userTimeout is for how long the kernel waits for an acknowledgement.
func userTimeout(t *testing.T, c net.Conn) time.Duration {
	t.Helper()
	return time.Duration(option(t, c, unix.TCP_USER_TIMEOUT)) * time.Millisecond
}

// option is one of a connection's socket.
func option(t *testing.T, c net.Conn, name int) int {
	t.Helper()
	socket, ok := c.(syscall.Conn)
	if !ok {
		t.Fatalf("%T is no socket", c)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var value int
	if e := raw.Control(func(fd uintptr) { value, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, name) }); e != nil || err != nil {
		t.Fatal(e, err)
	}
	return value
}

// tap shows the connections that a gRPC server has.
type tap struct {
	credentials.TransportCredentials
	conns chan net.Conn
}

func (c tap) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c.conns <- raw
	return c.TransportCredentials.ServerHandshake(raw)
}

func TestKernelGivesConnectionsOfEitherEndUpInTimeAndKeepsLittleToSend(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conns := make(chan net.Conn, 1)
	server := grpc.NewServer(grpc.Creds(tap{insecure.NewCredentials(), conns}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: time.Second})) // which gRPC sets on connections of TCP
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() { server.Stop(); wg.Wait() })

	var dialled net.Conn
	client, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			c, err := dialTCP(ctx, l.Addr().String())
			if err == nil {
				dialled = c
			}
			return c, err
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	// An answer proves that the server has set up the connection.
	err = client.Invoke(t.Context(), "/none/None", &emptypb.Empty{}, &emptypb.Empty{})
	if status.Code(err) != codes.Unimplemented {
		t.Fatal(err)
	}
	served, ok := (<-conns).(accepted)
	if !ok {
		t.Fatal("gRPC sees a connection of TCP, and would set its own timeout")
	}
	for end, c := range map[string]net.Conn{"accepted": served.Conn, "dialled": dialled} {
		if got := userTimeout(t, c); got != 15*time.Second {
			t.Errorf("%s: the kernel waits %s for an acknowledgement", end, got)
		}
		if got := option(t, c, unix.TCP_NOTSENT_LOWAT); got != unsentLimit {
			t.Errorf("%s: the kernel keeps %d bytes to be sent", end, got)
		}
	}
}
