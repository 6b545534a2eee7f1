// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tombolo-dev/tombolo/cri"
)

// Flow control windows. They bound what one stream and all streams together may have under way: 2 MiB lets one stream
// fill 160 Mbit/s at 100 ms round trip. gRPC grants the connection's window as bytes arrive, so that a reader who stalls
// holds up its own stream only.
const (
	streamWindow     = 2 << 20
	connectionWindow = 16 << 20
)

// Keepalive of a connection between machines: a peer that was silent for keepaliveInterval, and then does not answer a ping within
// keepaliveTimeout, is gone. Together they leave a second of the fifteen within which a silent cut is to be noticed and told. The
// server allows pings twice as often as clients send them, because clocks differ.
const (
	keepaliveInterval    = 10 * time.Second
	keepaliveTimeout     = 4 * time.Second
	keepaliveMinInterval = 5 * time.Second
)

// connectTimeout bounds one attempt to connect by default, handshake included.
const connectTimeout = 5 * time.Second

// ConnOptions describe a client connection.
type ConnOptions struct {
	// Name says in errors what is at the other end, such as "host tls://192.0.2.1:8470".
	Name string
	// Dial opens a connection that is ready for HTTP/2, secured if it needs to be.
	Dial func(context.Context) (net.Conn, error)
	// Local says that the other end is on this machine: no keepalive, and attempts to reconnect follow faster.
	Local bool
	// Down tells why the other end cannot be reached, nil while it can or that is not known. Calls fail at once with it instead
	// of waiting for a connection that takes long to make. Default: they wait for the first attempt.
	Down func() error
	// Node says which node makes the calls, "" while that is not known. A host does as one node says. Default: nobody is told.
	Node func() string
	// Negotiated is told for each connection to a host process which version that is of, and nil or a *SkewError, with which every call on
	// that connection fails as UNAVAILABLE. Version is that of this program. Default: nothing is negotiated, as with a container runtime.
	Negotiated func(host string, err error)
	Version    string
	// ConnectTimeout bounds one attempt to connect. Default: 5 s.
	ConnectTimeout time.Duration

	// speaks is for tests. Default: what this program speaks.
	speaks tongue
}

// NewConn returns a client connection that connects in the background and reconnects for ever. While the other end cannot
// be reached, calls fail at once as UNAVAILABLE with the name and the reason. The caller closes it.
func NewConn(o ConnOptions) (*grpc.ClientConn, error) {
	delays := backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second}
	if o.Local {
		delays.BaseDelay, delays.MaxDelay = 100*time.Millisecond, time.Second
	}
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = connectTimeout
	}
	if o.Down == nil {
		o.Down = func() error { return nil }
	}
	var negotiating []grpc.DialOption
	if o.Negotiated != nil {
		if o.speaks == (tongue{}) {
			o.speaks = native(o.Version)
		}
		n := newNegotiation(o.speaks, o.Negotiated)
		o.Dial, negotiating = n.count(o.Dial), n.interceptors()
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()), // Dial secured the connection
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return o.Dial(ctx) }),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: delays, MinConnectTimeout: o.ConnectTimeout}),
		grpc.WithIdleTimeout(0),
		grpc.WithInitialWindowSize(streamWindow),
		grpc.WithInitialConnWindowSize(connectionWindow),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(cri.MaxMessageBytes),
			grpc.MaxCallSendMsgSize(cri.MaxMessageBytes)),
		grpc.WithUnaryInterceptor(nameUnreachable(o.Name, o.Down)),
		grpc.WithStreamInterceptor(nameUnreachableStream(o.Name, o.Down)),
	}
	options = append(append(options, introduce(o.Node)...), negotiating...)
	if !o.Local {
		options = append(options, grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: keepaliveInterval, Timeout: keepaliveTimeout, PermitWithoutStream: true}))
	}
	// The target only satisfies gRPC: Dial knows where to go.
	conn, err := grpc.NewClient("passthrough:///tombolo", options...)
	if err != nil {
		return nil, fmt.Errorf("making a connection to %s: %w", o.Name, err)
	}
	conn.Connect()
	return conn, nil
}

// nameUnreachable says in errors of the connection itself what cannot be reached. An UNAVAILABLE that the other end
// answered, which shows by its metadata, is left as it is.
func nameUnreachable(name string, down func() error) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if err := known(down, cc, name); err != nil {
			return err
		}
		var header, trailer metadata.MD
		err := invoke(ctx, method, req, reply, cc, append(slices.Clip(opts), grpc.Header(&header), grpc.Trailer(&trailer))...)
		if err == nil || header.Len()+trailer.Len() > 0 {
			return err
		}
		return unreachable(name, err)
	}
}

// nameUnreachableStream does the same for streams that cannot be opened.
func nameUnreachableStream(name string, down func() error) grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		if err := known(down, cc, name); err != nil {
			return nil, err
		}
		stream, err := open(ctx, desc, cc, method, opts...)
		return stream, unreachable(name, err)
	}
}

// known fails a call that cannot get anywhere, and sees to it that there is an attempt to connect all the same.
func known(down func() error, cc *grpc.ClientConn, name string) error {
	err := down()
	if err == nil {
		return nil
	}
	cc.Connect()
	return unreachable(name, status.Error(codes.Unavailable, err.Error()))
}

func unreachable(name string, err error) error {
	if status.Code(err) != codes.Unavailable {
		return err
	}
	return status.Error(codes.Unavailable, fmt.Sprintf("%s is not reachable: %s", name, status.Convert(err).Message()))
}
