// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/tombolo-dev/tombolo/host/local"
	"github.com/tombolo-dev/tombolo/host/remote"
	"github.com/tombolo-dev/tombolo/link/sshlink"
)

const (
	// predecessorPatience is how long a process waits for the one before it. That one notices within 15 s that its node no
	// longer answers, and stops within a few seconds.
	predecessorPatience = 22 * time.Second
	// predecessorPeriod is how often it looks.
	predecessorPeriod = 200 * time.Millisecond
)

// checkStdio finds flags that make no sense together with --stdio.
func (o *hostOptions) checkStdio() (problems []error) {
	for _, flag := range []struct {
		name  string
		given bool
	}{
		{"listen", o.listen != defaultHostListen}, {"connect", o.connect.address != ""}, {"proxy", o.connect.proxy != ""}, {"metrics-address", o.metricsAddress != ""}, {"tls-cert-file", o.files.CertFile != ""},
		{"tls-private-key-file", o.files.KeyFile != ""}, {"client-ca-file", o.files.CAFile != ""}, {"node-name", len(o.nodes) > 0},
	} {
		if flag.given {
			problems = append(problems, fmt.Errorf("--%s is for a host that is reached over the network, and --stdio is given: leave one of them out", flag.name))
		}
	}
	return problems
}

// open takes possession of the root directory. A process that was started by a node waits for its predecessor, whose
// connection may have been cut without its noticing yet.
func (o *hostOptions) open(ctx context.Context, p *process, options local.Options) (*local.Host, error) {
	machine, err := local.New(options)
	if !o.stdio {
		return machine, err
	}
	begin := p.clock.Now()
	for logged := false; errdefs.IsFailedPrecondition(err) && p.clock.Since(begin) < predecessorPatience; machine, err = local.New(options) {
		if !logged {
			options.Logger.Info("waiting for the end of a process before this one", "error", err)
			logged = true
		}
		timer := p.clock.NewTimer(predecessorPeriod)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
	if err != nil {
		return nil, err
	}
	if err := unix.Access(o.containerd, unix.W_OK); errors.Is(err, unix.EACCES) {
		return nil, errors.Join(fmt.Errorf("--containerd %s: %w", o.containerd, err), machine.Close(ctx))
	}
	return machine, nil
}

// serveStdio serves the node at the other end of standard input and output until either of them ends it.
func (o *hostOptions) serveStdio(ctx context.Context, p *process, server *remote.Server, logger *slog.Logger) error {
	// With the node gone, a line of the log must not kill this process before it has ended what is under way.
	signal.Ignore(syscall.SIGPIPE)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := newStdioConn(p.stdin, p.stdout, cancel)
	if err != nil {
		return err
	}
	logger.Info("serving a node on standard input and output", "version", buildVersion(), "containerd", o.containerd, "root", o.rootDir)
	if _, err := io.WriteString(conn, sshlink.Greeting(buildVersion())); err != nil {
		return fmt.Errorf("greeting the node: %w", err)
	}
	err = boundedStop(ctx, logger, func() error { return server.Serve(ctx, newSingleListener(conn)) })
	if err == nil {
		logger.Info("stopped, pods were left alone")
	}
	return err
}

// stdioConn is standard input and output as one connection.
type stdioConn struct {
	in  io.Reader
	out io.Writer
	// ended is called once at the end of the connection.
	ended func()
	once  sync.Once
	err   error
}

var _ net.Conn = (*stdioConn)(nil)

func newStdioConn(in io.Reader, out io.Writer, ended func()) (_ *stdioConn, err error) {
	if in, err = interruptible(in); err != nil {
		return nil, err
	}
	if out, err = interruptible(out); err != nil {
		return nil, err
	}
	return &stdioConn{in: in, out: out, ended: ended}, nil
}

// interruptible makes of a file one whose reads and writes end when it is closed, if the kernel can do that.
func interruptible[T any](stream T) (T, error) {
	file, ok := any(stream).(*os.File)
	if !ok {
		return stream, nil
	}
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return stream, fmt.Errorf("opening %s: %w", file.Name(), err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return stream, errors.Join(fmt.Errorf("opening %s: %w", file.Name(), err), unix.Close(fd))
	}
	again, _ := any(os.NewFile(uintptr(fd), file.Name())).(T)
	return again, nil
}

// Read reads what the node sends.
func (c *stdioConn) Read(p []byte) (int, error) { return c.in.Read(p) }

// Write writes to the node.
func (c *stdioConn) Write(p []byte) (int, error) { return c.out.Write(p) }

// Close ends the connection.
func (c *stdioConn) Close() error {
	c.once.Do(func() {
		for _, stream := range []any{c.in, c.out} {
			if closer, ok := stream.(io.Closer); ok {
				c.err = errors.Join(c.err, closer.Close())
			}
		}
		c.ended()
	})
	return c.err
}

// stdioAddr is the address of both ends.
type stdioAddr struct{}

// Network returns "stdio".
func (stdioAddr) Network() string { return "stdio" }

// String returns "stdio".
func (stdioAddr) String() string { return "stdio" }

// LocalAddr is "stdio".
func (c *stdioConn) LocalAddr() net.Addr { return stdioAddr{} }

// RemoteAddr is "stdio".
func (c *stdioConn) RemoteAddr() net.Addr { return stdioAddr{} }

// SetDeadline sets both deadlines.
func (c *stdioConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline is os.ErrNoDeadline for standard inputs that know of none.
func (c *stdioConn) SetReadDeadline(t time.Time) error {
	if in, ok := c.in.(interface{ SetReadDeadline(time.Time) error }); ok {
		return in.SetReadDeadline(t)
	}
	return os.ErrNoDeadline
}

// SetWriteDeadline is os.ErrNoDeadline for standard outputs that know of none.
func (c *stdioConn) SetWriteDeadline(t time.Time) error {
	if out, ok := c.out.(interface{ SetWriteDeadline(time.Time) error }); ok {
		return out.SetWriteDeadline(t)
	}
	return os.ErrNoDeadline
}

// singleListener yields one connection and then nothing until it is closed.
type singleListener struct {
	conn   chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newSingleListener(conn net.Conn) *singleListener {
	l := &singleListener{conn: make(chan net.Conn, 1), closed: make(chan struct{})}
	l.conn <- conn
	return l
}

// Accept returns the connection to the first caller.
func (l *singleListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conn:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept. The connection stays as it is.
func (l *singleListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr is "stdio".
func (l *singleListener) Addr() net.Addr { return stdioAddr{} }
