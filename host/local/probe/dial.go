// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"net"
	"sync"
	"syscall"
)

// linger is for how many seconds a closed connection may wait to be closed by the other side, too. With the system's
// default, a minute, hosts with many probes run out of ports.
const linger = 1

// newDialer returns a dialer for connections that are closed soon.
func newDialer() *net.Dialer {
	return &net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		// Best effort: a connection without it works as well.
		return raw.Control(func(fd uintptr) {
			_ = syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1, Linger: linger})
		})
	}}
}

// sockets are the connections of one request. A transport of net/http goes on with a connection that it has begun when
// the request is given up, in the hope that another one needs it; here close ends all.
type sockets struct {
	dialer *net.Dialer
	ctx    context.Context // of the dials
	cancel context.CancelFunc

	mu     sync.Mutex
	conns  []net.Conn
	closed bool
}

func newSockets(ctx context.Context) *sockets {
	s := &sockets{dialer: newDialer()}
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s
}

// dial is the DialContext of a transport. The context it is given outlives the request.
func (s *sockets) dial(_ context.Context, network, address string) (net.Conn, error) {
	conn, err := s.dialer.DialContext(s.ctx, network, address)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = conn.Close() // nobody waits for it
		return nil, net.ErrClosed
	}
	s.conns = append(s.conns, conn)
	return conn, nil
}

func (s *sockets) close() {
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, conn := range s.conns {
		_ = conn.Close() // it may be closed already
	}
}
