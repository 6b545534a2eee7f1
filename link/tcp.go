// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// unacknowledgedTimeout is how long sent bytes may stay unacknowledged before the kernel gives a connection up. Without it
// a connection whose other end vanished hangs for a quarter of an hour.
const unacknowledgedTimeout = 15 * time.Second

func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	return (&net.Dialer{Control: giveUpWhenUnacknowledged}).DialContext(ctx, "tcp", address)
}

// Listen listens for the other end of a link on address:port. The kernel gives its connections up as soon as those that this end dials:
// after 15 seconds without an acknowledgement.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := (&net.ListenConfig{Control: giveUpWhenUnacknowledged}).Listen(ctx, "tcp", address) // what is accepted inherits it
	if err != nil {
		return nil, err
	}
	return listener{l}, nil
}

type listener struct{ net.Listener }

// Accept returns the next connection.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return accepted{c}, nil
}

// accepted hides that a connection is of TCP from gRPC, which would set the timeout to that of its pings: a few seconds of loss would
// end the connection.
type accepted struct{ net.Conn }

// giveUpWhenUnacknowledged sets TCP_USER_TIMEOUT on a socket before it is used.
func giveUpWhenUnacknowledged(_, _ string, raw syscall.RawConn) error {
	var failed error
	err := raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unacknowledgedTimeout.Milliseconds()))
	})
	return errors.Join(err, failed)
}
