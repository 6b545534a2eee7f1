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

// unsentLimit is how many bytes may wait in a socket that the network has not taken yet, in bytes. They go before everything that is
// written later: without a limit, a log or a forwarded port fills the kernel's buffer with megabytes, and every call waits for all of them.
// test/bench/links shows what it does; with four times as much calls wait longer, and streams are not faster.
const unsentLimit = 32 << 10

func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	return (&net.Dialer{Control: prepare}).DialContext(ctx, "tcp", address)
}

// Listen listens for the other end of a link on address:port. The kernel gives its connections up as soon as those that this end dials:
// after 15 seconds without an acknowledgement; and no more than 32 KiB wait to be sent.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	config := net.ListenConfig{Control: prepare} // what is accepted inherits it
	config.SetMultipathTCP(false)                // from which not all is inherited
	l, err := config.Listen(ctx, "tcp", address)
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

// prepare sets TCP_USER_TIMEOUT and TCP_NOTSENT_LOWAT on a socket before it is used.
func prepare(_, _ string, raw syscall.RawConn) error {
	var failed error
	err := raw.Control(func(fd uintptr) {
		failed = errors.Join(
			unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unacknowledgedTimeout.Milliseconds())),
			unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsentLimit))
	})
	return errors.Join(err, failed)
}
