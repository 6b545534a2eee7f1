// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/link/calmlog"
	"github.com/tombolo-dev/tombolo/link/guestlist"
)

const (
	// handshakeTimeout bounds how long a peer may take until it is greeted.
	handshakeTimeout = 10 * time.Second
	// maxHandshakes bounds how many peers may be there that nothing is known of yet. With one more, the oldest of the busiest source is sent
	// away: a host is done within moments, those who only take up room are not.
	maxHandshakes = 64
	// acceptPause is for when nothing can be accepted, for instance because there are too many open files.
	acceptPause = time.Second
	// reviewPeriod is how often it is asked whether a certificate is still good.
	reviewPeriod = 5 * time.Second
)

// Options say whose connections are taken.
type Options struct {
	// Listener is closed by Close.
	Listener net.Listener
	// Name is the host's, which its certificate must have.
	Name string
	// TLS is for the server's end of a handshake. It must demand a certificate and verify all of it but the name.
	TLS *tls.Config
	// Check says whether a host's certificate is still good, and which host it is of, if more than one may be of the same. It is asked
	// for each connection and, while it is there, time and again; then only PermissionDenied ends it, or the end of the certificate's
	// time. Default: it is good for as long as the connection lasts, and the host is who has its key.
	Check func(*x509.Certificate) (who string, err error)
	// Others are what else may be spoken at the listener, by the protocol that both ends name in the handshake. They have the
	// connection until they return, which they do soon and at the end of ctx. Default: nothing.
	Others map[string]func(ctx context.Context, conn *tls.Conn)
	// Explain says in an operator's words why a handshake failed. Default: what the error says.
	Explain func(error) string
	// Refused is told of a peer that is not welcome although it showed a certificate. Default: nobody.
	Refused func(error)
	// Clock is the real one by default.
	Clock clock.Clock
	// Logger gets one line for each connection that is accepted, and for those that are refused unless they are many. Default: none.
	Logger *slog.Logger
	// Registerer gets the counts of connections that were refused or replaced. Default: none.
	Registerer prometheus.Registerer
}

// Acceptor takes the connections of one host.
type Acceptor struct {
	o       Options
	metrics *metrics
	refused *calmlog.Log
	arrived chan struct{} // has an element when there may be something in waiting
	done    chan struct{}
	cancel  context.CancelFunc
	group   sync.WaitGroup

	guests *guestlist.List

	mu      sync.Mutex
	holder  claim
	current *conn // the newest connection, if it has not ended
	waiting *conn // the same, until somebody takes it
	closed  bool
}

// Listen begins to accept.
func Listen(o Options) *Acceptor {
	if o.Explain == nil {
		o.Explain = error.Error
	}
	if o.Refused == nil {
		o.Refused = func(error) {}
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	a := &Acceptor{
		o: o, metrics: newMetrics(o.Registerer), refused: calmlog.New(o.Logger, o.Clock), arrived: make(chan struct{}, 1),
		done: make(chan struct{}), cancel: cancel, guests: guestlist.New(maxHandshakes),
	}
	a.group.Go(func() { a.accept(ctx) })
	if o.Check != nil {
		a.group.Go(func() { a.review(ctx) })
	}
	return a
}

// Addr is where hosts connect to.
func (a *Acceptor) Addr() net.Addr { return a.o.Listener.Addr() }

// Dial returns the newest connection of the host that nobody has taken yet, and waits for one if need be. The caller owns it.
func (a *Acceptor) Dial(ctx context.Context) (net.Conn, error) {
	for {
		a.mu.Lock()
		c := a.waiting
		a.waiting = nil
		a.mu.Unlock()
		if c != nil {
			return c, nil
		}
		select {
		case <-a.arrived:
		case <-ctx.Done():
			return nil, fmt.Errorf("the host has not connected to %s: %w", a.Addr(), ctx.Err())
		case <-a.done:
			return nil, net.ErrClosed
		}
	}
}

// Close ends everything but connections that were taken.
func (a *Acceptor) Close() {
	a.mu.Lock()
	first := !a.closed
	a.closed = true
	waiting := a.waiting
	a.mu.Unlock()
	if first {
		close(a.done)
		a.cancel()
		_ = a.o.Listener.Close()
	}
	if waiting != nil {
		_ = waiting.Close()
	}
	a.group.Wait()
}

func (a *Acceptor) accept(ctx context.Context) {
	for {
		raw, err := a.o.Listener.Accept()
		if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			if err == nil {
				_ = raw.Close()
			}
			return
		}
		if err != nil {
			a.o.Logger.Warn("cannot accept connections of the host", "address", a.Addr().String(), "error", err)
			if !a.pause(ctx, acceptPause) {
				return
			}
			continue
		}
		a.group.Go(func() { a.receive(ctx, raw) })
	}
}

// pause says whether to go on.
func (a *Acceptor) pause(ctx context.Context, how time.Duration) bool {
	timer := a.o.Clock.NewTimer(how)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}

// receive secures one connection and finds out whose it is.
func (a *Acceptor) receive(ctx context.Context, raw net.Conn) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	known := a.guests.LetIn(raw.RemoteAddr(), func() {
		a.refuse(raw, refusedBusy, errBusy)
		cancel()
	})
	defer known()
	secured := tls.Server(raw, a.o.TLS)
	if err := secured.HandshakeContext(ctx); err != nil {
		a.handshakeFailed(raw, err)
		_ = raw.Close()
		return
	}
	if other := a.o.Others[secured.ConnectionState().NegotiatedProtocol]; other != nil {
		other(ctx, secured)
		_ = secured.Close()
		return
	}
	known()
	if !a.admit(secured) {
		_ = secured.Close()
	}
}

var errBusy = errors.New("it took up room that others needed, and had not shown who it is")

func (a *Acceptor) handshakeFailed(raw net.Conn, err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, context.Canceled) {
		a.o.Logger.Debug("connection closed by the peer before the handshake", "peer", raw.RemoteAddr().String())
		return
	}
	why := errors.New(a.o.Explain(err))
	a.refuse(raw, refusedHandshake, why)
	if unverified := (*tls.CertificateVerificationError)(nil); errors.As(err, &unverified) {
		a.o.Refused(fmt.Errorf("%s was refused: %w", raw.RemoteAddr(), why))
	}
}

// refuse counts and tells that somebody was sent away.
func (a *Acceptor) refuse(raw net.Conn, reason string, why error) {
	a.metrics.refused.WithLabelValues(reason).Inc()
	a.refused.Warn("connection refused", "peer", raw.RemoteAddr().String(), "reason", why.Error())
}

// admit greets whoever is at the other end, and says whether it stays.
func (a *Acceptor) admit(secured *tls.Conn) bool {
	cert := secured.ConnectionState().PeerCertificates[0]
	c := &conn{Conn: secured, ended: a.forget}
	who, reason, err := a.judge(cert)
	var old *conn
	if err == nil {
		reason = refusedTaken
		old, err = a.take(c, claimOf(cert, who))
	}
	if err != nil {
		a.refuse(secured, reason, err)
		a.o.Refused(fmt.Errorf("%s was refused: %w", secured.RemoteAddr(), err))
		_ = greet(secured, err)
		return false
	}
	if old != nil {
		a.metrics.takeovers.Inc()
		a.o.Logger.Info("another connection of the host takes over", "peer", secured.RemoteAddr().String(), "former", old.RemoteAddr().String())
		old.end(errReplaced)
	}
	if err := greet(secured, nil); err != nil {
		_ = c.Close()
		return false
	}
	return a.offer(c)
}

// judge says whether a certificate is the host's, and still good.
func (a *Acceptor) judge(cert *x509.Certificate) (who, reason string, err error) {
	if err := checkName(cert, a.o.Name); err != nil {
		return "", refusedName, err
	}
	if a.o.Check == nil {
		return "", "", nil
	}
	who, err = a.o.Check(cert)
	reason = refusedRevoked
	if err != nil && !errdefs.IsPermissionDenied(err) {
		reason = refusedUnknown
	}
	return who, reason, err
}

// review ends the host's connection when its certificate is not good any more.
func (a *Acceptor) review(ctx context.Context) {
	for a.pause(ctx, reviewPeriod) {
		a.mu.Lock()
		c := a.current
		a.mu.Unlock()
		if c == nil {
			continue
		}
		cert := c.ConnectionState().PeerCertificates[0]
		if a.o.Clock.Now().After(cert.NotAfter) {
			a.o.Logger.Info("the certificate of the host's connection has expired, it connects again with a newer one", "not_after", cert.NotAfter)
			c.end(errExpired)
		} else if _, err := a.o.Check(cert); errdefs.IsPermissionDenied(err) {
			a.refuse(c, refusedRevoked, err)
			c.end(errRevoked)
		}
	}
}

// take gives the name to a connection if it may have it, and returns the one that had it until now.
func (a *Acceptor) take(c *conn, by claim) (old *conn, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.holder.yield(by, a.current != nil); err != nil {
		return nil, err
	}
	old = a.current
	a.holder, a.current, a.waiting = by, c, nil
	return old, nil
}

// offer lets Dial return a connection, unless it was replaced meanwhile.
func (a *Acceptor) offer(c *conn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current != c || a.closed {
		return false
	}
	a.waiting = c
	select {
	case a.arrived <- struct{}{}:
	default:
	}
	a.o.Logger.Info("the host has connected", "peer", c.RemoteAddr().String(), "host", a.o.Name)
	return true
}

// forget is called at the end of a connection.
func (a *Acceptor) forget(c *conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current == c {
		a.current = nil
	}
	if a.waiting == c {
		a.waiting = nil
	}
}
