// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package hostconn

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/host/local"
	"github.com/tombolo-dev/tombolo/host/remote"
	"github.com/tombolo-dev/tombolo/link"
)

// Options say where the host is and how it is reached.
type Options struct {
	// Target is unix:///path/of/containerd.sock, tls://host:port, ssh://user@host:port or reverse://name.
	Target string

	// Files are for tls:// and reverse://.
	Files link.Files
	// ServerName is for tls://: the name in the host's certificate, by default the host part of the target.
	ServerName string
	// Listen is for reverse://: the address:port to which the host connects.
	Listen string
	// Join is for reverse://, in place of Files: the node is its own authority, and hosts join by tokens.
	Join Join

	// SSH is for ssh://.
	SSH SSH

	// Inspect makes a connection for looking only: of the Connection, CRI and Facts may be used. It needs no possession of the root
	// directory, which another process may have.
	Inspect bool

	// RootDir, PodLogsDir and Version are for unix://, where the host part runs in this process, and for ssh://, where it is
	// started by it.
	RootDir    string
	PodLogsDir string
	Version    string

	// Clock is the real one by default.
	Clock clock.WithTickerAndDelayedExecution
	// Logger is told when the link comes up and goes down. Default: none.
	Logger *slog.Logger
	// Registerer gets the metrics of the way to the host. Default: none.
	Registerer prometheus.Registerer
}

// Connection is a host as a node uses it.
type Connection struct {
	// CRI is the machine's container runtime.
	CRI grpc.ClientConnInterface
	// Host is everything else on the machine, nil with Options.Inspect.
	Host host.Host
	// Facts are the part of Host that tells of the machine.
	Facts host.FactsReader
	// Target is the target in its text form.
	Target string

	link  *link.Link
	node  *atomic.Pointer[string]
	skew  atomic.Pointer[skew]
	close func(context.Context) error
}

// Connect prepares a connection. It does not wait for the host: calls fail as Unavailable while the host cannot be reached,
// and work once it can. An error means that the options are wrong or, for unix://, that the root directory is in use.
func Connect(o Options) (*Connection, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	target, err := link.ParseTarget(o.Target)
	if err != nil {
		return nil, err
	}
	switch target.Scheme {
	case link.SchemeUnix:
		return connectLocal(o, target)
	case link.SchemeSSH:
		return connectSSH(o, target)
	default:
		return connectWithCertificates(o, target)
	}
}

// reverseTimeout is how long one wait for the host takes. It could be any time: calls fail at once meanwhile.
const reverseTimeout = time.Hour

// connectWithCertificates connects to a host process, or waits for it to connect.
func connectWithCertificates(o Options, target link.Target) (*Connection, error) {
	desk, err := o.openDesk(target)
	if err != nil {
		return nil, err
	}
	certificates, err := link.LoadCertificates(o.LinkFiles(target), o.Logger)
	if err != nil {
		return nil, err
	}
	if err := certificates.CheckUsage(x509.ExtKeyUsageClientAuth); err != nil {
		return nil, fmt.Errorf("--host-cert-file: %w", err)
	}
	to, err := link.New(link.Options{
		Target: target, Certificates: certificates, ServerName: o.ServerName, Listen: o.Listen, Desk: desk,
		Clock: o.Clock, Logger: o.Logger, Registerer: o.Registerer,
	})
	if err != nil {
		return nil, err
	}
	var options remote.ConnOptions
	if target.Scheme == link.SchemeReverse {
		options.ConnectTimeout = reverseTimeout
		options.Down = func() error { return to.State().Err }
	}
	return connectRemote(o, to, options)
}

// connectRemote connects to a host process over a link.
func connectRemote(o Options, to *link.Link, options remote.ConnOptions) (*Connection, error) {
	target := to.Target().String()
	options.Name, options.Dial = "host "+target, to.Dial
	var node atomic.Pointer[string]
	options.Node = func() string {
		if name := node.Load(); name != nil {
			return *name
		}
		return ""
	}
	c := &Connection{Target: target, link: to, node: &node}
	options.Version, options.Negotiated = o.Version, c.negotiated(o)
	conn, err := remote.NewConn(options)
	if err != nil {
		to.Close()
		return nil, err
	}
	c.CRI, c.close = conn, func(context.Context) error { return conn.Close() }
	machine := remote.NewClient(conn, remote.ClientOptions{Clock: o.Clock})
	if c.Facts = machine; !o.Inspect {
		c.Host = machine
	}
	return c, nil
}

func connectLocal(o Options, target link.Target) (*Connection, error) {
	to, err := link.New(link.Options{Target: target, Clock: o.Clock, Logger: o.Logger, Registerer: o.Registerer})
	if err != nil {
		return nil, err
	}
	conn, err := remote.NewConn(remote.ConnOptions{Name: "containerd at " + target.Address, Dial: to.Dial, Local: true})
	if err != nil {
		return nil, err
	}
	options := local.Options{
		RootDir:    o.RootDir,
		PodLogsDir: o.PodLogsDir,
		Runtime:    cri.NewClient(conn, cri.ClientOptions{Clock: o.Clock}),
		Version:    o.Version,
		Clock:      o.Clock,
		Logger:     o.Logger,
	}
	if o.Inspect {
		facts, err := local.NewReader(options)
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return &Connection{
			CRI: conn, Facts: facts, Target: target.String(), link: to,
			close: func(context.Context) error { return conn.Close() },
		}, nil
	}
	here, err := local.New(options)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &Connection{
		CRI:    here.ObserveStreaming(conn),
		Host:   here,
		Facts:  here,
		Target: target.String(),
		link:   to,
		close: func(ctx context.Context) error {
			return errors.Join(here.Close(ctx), conn.Close())
		},
	}, nil
}

// Introduce tells the host from now on which node it is that calls, in words. A host process does as one node says, and refuses another
// one as long as that one calls. A host in this process has no other.
func (c *Connection) Introduce(node string) {
	if c.node != nil {
		c.node.Store(&node)
	}
}

// State is how the connection is doing.
type State struct {
	// Up says that the other end answers, and is of a version that this one understands.
	Up bool
	// Since is when Up last changed, or when the connection was made.
	Since time.Time
	// Err is why it is down, nil while it is up or was not tried yet.
	Err error
	// Waiting says that Err is only what a connection that is being made waits for.
	Waiting bool
}

// State returns how the connection is doing.
func (c *Connection) State() State {
	s := c.link.State()
	if found := c.skew.Load(); s.Up && found != nil {
		return State{Since: found.since, Err: found.err}
	}
	return State{Up: s.Up, Since: s.Since, Err: s.Err, Waiting: s.Waiting}
}

// Err returns why the host cannot be reached, with its target and as Unavailable, or nil while it can.
func (c *Connection) Err() error {
	state := c.State()
	switch {
	case state.Up:
		return nil
	case state.Err == nil:
		return fmt.Errorf("no connection to %s yet: %w", c.Target, errdefs.ErrUnavailable)
	default:
		return fmt.Errorf("%w: %w", state.Err, errdefs.ErrUnavailable)
	}
}

// Close ends the connection. A host part in this process waits for running hooks until ctx ends. Pods are not touched.
func (c *Connection) Close(ctx context.Context) error {
	c.link.Close()
	return c.close(ctx)
}
