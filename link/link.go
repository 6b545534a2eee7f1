// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"syscall"

	"github.com/containerd/errdefs"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/link/join"
	"github.com/tombolo-dev/tombolo/link/reverse"
	"github.com/tombolo-dev/tombolo/link/safetext"
	"github.com/tombolo-dev/tombolo/link/sshlink"
)

// Options say where a link leads.
type Options struct {
	Target Target
	// Certificates are the identity of this side and the authority of the other one. Required for SchemeTLS and SchemeReverse.
	Certificates *Certificates
	// ServerName is the name that the host's certificate must carry, by default the host part of the target.
	ServerName string
	// SSH says how to log in to the host and what to start there. Required for SchemeSSH. Address and Note are set by New.
	SSH *sshlink.Options
	// Listen is the address:port to which the host connects. Required for SchemeReverse.
	Listen string
	// Desk is for SchemeReverse, and lets hosts join at the same port. Default: none can.
	Desk  *join.Desk
	Clock clock.PassiveClock
	// Logger is told when the link comes up or goes down. Default: none.
	Logger *slog.Logger
	// Registerer gets the metrics of a node's link. Default: none.
	Registerer prometheus.Registerer
}

// Link dials one target.
type Link struct {
	target     Target
	certs      *Certificates
	serverName string
	ssh        *sshlink.Dialer
	reverse    *reverse.Acceptor
	tracker    *tracker
}

// New returns a link. It does not connect: Dial does, as often as it is called. For SchemeReverse it listens until Close.
func New(o Options) (*Link, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if (o.Target.Scheme == SchemeTLS || o.Target.Scheme == SchemeReverse) && o.Certificates == nil {
		return nil, fmt.Errorf("target %s needs certificates: %w", o.Target, errdefs.ErrInvalidArgument)
	}
	if o.Target.Scheme == SchemeTLS {
		name, err := o.Target.serverName(o.ServerName)
		if err != nil {
			return nil, err
		}
		o.ServerName = name
	}
	l := &Link{
		target:     o.Target,
		certs:      o.Certificates,
		serverName: o.ServerName,
		tracker:    newTracker(o.Target.String(), o.Clock, o.Logger),
	}
	var err error
	switch o.Target.Scheme {
	case SchemeSSH:
		l.ssh, err = newSSH(o, l.tracker)
	case SchemeReverse:
		l.reverse, err = newReverse(o, l.tracker)
	}
	if err != nil {
		return nil, err
	}
	l.tracker.publish(o.Registerer)
	return l, nil
}

func newSSH(o Options, t *tracker) (*sshlink.Dialer, error) {
	if o.SSH == nil {
		return nil, fmt.Errorf("target %s needs something to log in with: %w", o.Target, errdefs.ErrInvalidArgument)
	}
	address, err := sshlink.ParseAddress(o.Target.Address)
	if err != nil {
		return nil, fmt.Errorf("target %s: %w", o.Target, err)
	}
	options := *o.SSH
	options.Address, options.Note = address, t.note
	return sshlink.New(options, dialTCP)
}

// Target returns where the link leads.
func (l *Link) Target() Target { return l.target }

// State returns how the link is doing.
func (l *Link) State() State { return l.tracker.get() }

// Close ends the reports of the link, and listening. Connections belong to whoever dialed them and stay open.
func (l *Link) Close() {
	l.tracker.close()
	if l.reverse != nil {
		l.reverse.Close()
	}
}

// Dial opens a new connection. The caller owns it. An error is Unavailable, unless ctx was cancelled. Its text is short: peers of whom
// nothing is known have a part in it, and it gets into the status of a node.
func (l *Link) Dial(ctx context.Context) (net.Conn, error) {
	raw, err := l.dial(ctx)
	if err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil, err
		}
		err = safetext.ExcerptError(fmt.Errorf("%s: %w", l.tracker.trying, err))
		l.tracker.failed(err)
		return nil, fmt.Errorf("%w: %w", err, errdefs.ErrUnavailable)
	}
	return &conn{Conn: raw, tracker: l.tracker}, nil
}

func (l *Link) dial(ctx context.Context) (net.Conn, error) {
	switch l.target.Scheme {
	case SchemeUnix:
		return (&net.Dialer{}).DialContext(ctx, "unix", l.target.Address)
	case SchemeSSH:
		return l.ssh.Dial(ctx)
	case SchemeReverse:
		return l.reverse.Dial(ctx)
	}
	raw, err := dialTCP(ctx, l.target.Address)
	if err != nil {
		return nil, err
	}
	secured := tls.Client(raw, l.certs.clientConfig(l.serverName))
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	return secured, nil
}

// errClosed is why a link is down when this side closed its connection, because the other end no longer answered.
var errClosed = errors.New("the connection no longer answered and was closed")

// conn tells the tracker what becomes of a connection.
type conn struct {
	net.Conn
	tracker *tracker

	mu     sync.Mutex
	spoken bool // the other end sent something
	ended  bool
}

// Read reads from the connection. The first byte proves that the other end accepted us.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.speak()
	}
	if err != nil && !isTimeout(err) {
		err = safetext.ExcerptError(err)
		c.end(err)
	}
	return n, err
}

// Write writes to the connection.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil && !isTimeout(err) {
		err = safetext.ExcerptError(c.lastWords(err))
		c.end(err)
	}
	return n, err
}

// lastWords are why the other end went away, if it said so before it did: a write may find out first that it has gone. Reading does not
// wait then, for the kernel has closed the connection.
func (c *conn) lastWords(err error) error {
	c.mu.Lock()
	spoken := c.spoken
	c.mu.Unlock()
	if spoken || !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		return err
	}
	if _, last := c.Conn.Read(make([]byte, 1)); isAlert(last) {
		return last
	}
	return err
}

// Close closes the connection.
func (c *conn) Close() error {
	c.end(errClosed)
	return c.Conn.Close()
}

func (c *conn) speak() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.spoken || c.ended {
		return
	}
	c.spoken = true
	c.tracker.connected(c)
}

// end records the first reason for which the connection ended.
func (c *conn) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.ended = true
	if c.spoken {
		c.tracker.lost(c, err)
		return
	}
	c.tracker.failed(c.explain(err))
}

// explain says what an error before the first byte means: with TLS 1.3 that is how a refused certificate shows.
func (c *conn) explain(err error) error {
	if isAlert(err) {
		return fmt.Errorf("%s refused our certificate: %w", c.tracker.target, err)
	}
	return fmt.Errorf("%s closed the connection: %w", c.tracker.target, err)
}

// isAlert says whether err is a TLS alert of the other end. Its type is not exported; its operation is.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// isTimeout says whether err is a deadline of this side, which does not end a connection.
func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout() && !errors.Is(err, syscall.ETIMEDOUT)
}
