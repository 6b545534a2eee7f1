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
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/link/join"
	"github.com/tombolo-dev/tombolo/link/reverse"
	"github.com/tombolo-dev/tombolo/link/safetext"
)

// attemptTimeout bounds one attempt to connect to a node, until its greeting.
const attemptTimeout = 20 * time.Second

// steadyAfter is how long a connection lasts that was a good one. After a shorter one the pauses go on growing, so that a node
// that ends every connection is not called without end.
const steadyAfter = 10 * time.Second

// pauses are those between attempts: about half a second, growing to between seven and ten and a half.
func pauses() wait.Backoff {
	return wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.7, Jitter: 0.5, Steps: 10, Cap: 7 * time.Second}
}

// ConnectorOptions say which node a host connects to.
type ConnectorOptions struct {
	// Address is host:port.
	Address string
	// Certificates are the host's, and the authority of the node's.
	Certificates *Certificates
	// Nodes may be at the other end. Default: every one of the authority.
	Nodes Nodes
	// Proxy is an HTTP proxy to ask for a tunnel, nil to connect directly.
	Proxy *url.URL
	// Clock is the real one by default.
	Clock clock.Clock
	// Logger is told when the link comes up or goes down, and why it cannot be made. Default: none.
	Logger *slog.Logger
	// Registerer gets the metrics. Default: none.
	Registerer prometheus.Registerer
}

// Connector is the host's end of a reverse link: a listener that makes its connections itself, one at a time. It connects again
// for as long as it takes, with pauses that grow to about ten seconds and differ from one host to the next.
type Connector struct {
	o          ConnectorOptions
	serverName string
	dial       join.Dial
	tracker    *tracker
	metrics    *connectorMetrics

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	free   chan struct{} // has an element while there is no connection

	// Only of who took the element of free.
	backoff wait.Backoff
	tried   bool
}

var _ net.Listener = (*Connector)(nil)

// NewConnector returns a connector. It does not connect: Accept does.
func NewConnector(o ConnectorOptions) (*Connector, error) {
	serverName, dial, err := wayTo(o.Address, o.Proxy)
	if err != nil {
		return nil, err
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Connector{
		o: o, serverName: serverName, dial: dial, tracker: newTracker(o.Address, o.Clock, o.Logger),
		free: make(chan struct{}, 1), backoff: pauses(),
	}
	c.metrics = newConnectorMetrics(o.Registerer, c)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.free <- struct{}{}
	return c, nil
}

// Addr is that of the node.
func (c *Connector) Addr() net.Addr { return nodeAddr(c.o.Address) }

// Close ends Accept. The connection that was made stays as it is.
func (c *Connector) Close() error {
	c.tracker.close()
	c.cancel()
	return nil
}

// Accept returns the next connection on which the node has greeted. It waits for the end of the one before. The only error
// is net.ErrClosed.
func (c *Connector) Accept() (net.Conn, error) {
	select {
	case <-c.free:
	case <-c.ctx.Done():
		return nil, net.ErrClosed
	}
	for {
		if !c.pause() {
			return nil, net.ErrClosed
		}
		secured, err := c.connect()
		if err == nil {
			c.metrics.attempts.WithLabelValues(attemptWelcome).Inc()
			made := &conn{Conn: &connected{Conn: secured, ended: c.release(c.o.Clock.Now())}, tracker: c.tracker}
			return &welcomed{Conn: made, state: secured.ConnectionState()}, nil
		}
		if c.ctx.Err() != nil {
			return nil, net.ErrClosed
		}
		c.metrics.attempts.WithLabelValues(attemptFailed).Inc()
		c.tracker.failed(safetext.ExcerptError(fmt.Errorf("%s: %w", c.tracker.trying, err)))
	}
}

// pause waits before any attempt but the first, and says whether to go on.
func (c *Connector) pause() bool {
	if !c.tried {
		c.tried = true
		return c.ctx.Err() == nil
	}
	timer := c.o.Clock.NewTimer(c.backoff.Step())
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-c.ctx.Done():
		return false
	}
}

// release returns what is to be done at the end of a connection that began at a time.
func (c *Connector) release(begin time.Time) func() {
	return func() {
		if c.o.Clock.Since(begin) >= steadyAfter {
			c.backoff = pauses()
		}
		c.free <- struct{}{}
	}
}

func (c *Connector) connect() (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(c.ctx, attemptTimeout)
	defer cancel()
	raw, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	secured := tls.Client(raw, c.o.Certificates.hostConfig(reverse.Protocol, c.serverName, c.o.Nodes))
	if err := c.introduce(ctx, secured); err != nil {
		_ = raw.Close()
		return nil, err
	}
	return secured, nil
}

// introduce shows who this is, and waits until the node says that it is welcome.
func (c *Connector) introduce(ctx context.Context, secured *tls.Conn) error {
	if err := secured.HandshakeContext(ctx); err != nil {
		return c.o.Certificates.explainNode(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = secured.NetConn().Close() })
	err := reverse.ReadGreeting(secured)
	if !stop() {
		return errors.Join(ctx.Err(), errors.New("no greeting of the node"))
	}
	if err != nil {
		return c.o.Certificates.explainGreeting(err)
	}
	return nil
}

// Credentials are those of a gRPC server on the connections of Accept, which are secured already: they tell it who is at the other end.
func (c *Connector) Credentials() credentials.TransportCredentials {
	return connectorCredentials{insecure.NewCredentials()}
}

type connectorCredentials struct {
	credentials.TransportCredentials
}

// ServerHandshake tells of the handshake that was made.
func (connectorCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	made, ok := raw.(*welcomed)
	if !ok {
		return nil, nil, errors.New("not a connection of a connector")
	}
	return raw, credentials.TLSInfo{
		State: made.state, CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}, nil
}

// Clone returns the same.
func (c connectorCredentials) Clone() credentials.TransportCredentials { return c }

// welcomed is a connection on which the node has greeted.
type welcomed struct {
	net.Conn
	state tls.ConnectionState
}

// connected is a connection whose end is told once.
type connected struct {
	net.Conn
	once  sync.Once
	ended func()
}

// Close ends the connection.
func (c *connected) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.ended)
	return err
}

// nodeAddr is host:port of a node.
type nodeAddr string

// Network is "tcp".
func (nodeAddr) Network() string { return "tcp" }

// String is host:port.
func (a nodeAddr) String() string { return string(a) }
