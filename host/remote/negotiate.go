// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"net"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tombolo-dev/tombolo/host/hostpb"
)

// negotiation finds out on each connection, before anything else is called, whether the host understands this program.
type negotiation struct {
	own  tongue
	told func(host string, err error)
	// made counts connections.
	made atomic.Uint64
	// busy has an element while a call negotiates.
	busy chan struct{}
	// done is the outcome that was found last.
	done atomic.Pointer[outcome]
}

// outcome is how a negotiation ended.
type outcome struct {
	connection uint64 // the number of the one it was for
	err        error  // nil if both understand each other
}

func newNegotiation(own tongue, told func(host string, err error)) *negotiation {
	return &negotiation{own: own, told: told, busy: make(chan struct{}, 1)}
}

// count returns a dial function whose connections are counted.
func (n *negotiation) count(dial func(context.Context) (net.Conn, error)) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		conn, err := dial(ctx)
		if err == nil {
			n.made.Add(1)
		}
		return conn, err
	}
}

// interceptors put the negotiation before each call.
func (n *negotiation) interceptors() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if method != hostpb.HostService_Hello_FullMethodName {
				if err := n.settle(ctx, cc); err != nil {
					return err
				}
			}
			return invoke(n.tell(ctx), method, req, reply, cc, opts...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			if err := n.settle(ctx, cc); err != nil {
				return nil, err
			}
			return open(n.tell(ctx), desc, cc, method, opts...)
		}),
	}
}

// tell lets the host know what is spoken here: it may be the one that knows better.
func (n *negotiation) tell(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, protocolHeader, n.own.header())
}

// settle returns how the negotiation on the present connection ended, after it was done if need be.
func (n *negotiation) settle(ctx context.Context, cc *grpc.ClientConn) error {
	if done := n.current(); done != nil {
		return done.err
	}
	select {
	case n.busy <- struct{}{}:
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
	defer func() { <-n.busy }()
	if done := n.current(); done != nil {
		return done.err
	}
	// A connection that is made from now on is not the one that was asked about.
	connection := n.made.Load()
	host, err := n.ask(ctx, cc)
	if err != nil {
		return err
	}
	done := &outcome{connection: connection}
	if why := skew(n.own, host); why != nil {
		done.err = status.Error(codes.Unavailable, why.Error())
		n.told(host.version, why)
	} else {
		n.told(host.version, nil)
	}
	n.done.Store(done)
	return done.err
}

// current is the outcome for the present connection, nil if there is none yet.
func (n *negotiation) current() *outcome {
	if done := n.done.Load(); done != nil && done.connection == n.made.Load() {
		return done
	}
	return nil
}

// ask asks the host what it speaks.
func (n *negotiation) ask(ctx context.Context, cc *grpc.ClientConn) (tongue, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	hello, err := hostpb.NewHostServiceClient(cc).Hello(ctx, &hostpb.HelloRequest{Version: n.own.version})
	if err != nil {
		return tongue{}, err
	}
	version := printable(hello.GetVersion())
	if hello.GetNewestProtocol() == 0 {
		return silent(version), nil
	}
	return tongue{version: version, oldest: hello.GetOldestProtocol(), newest: hello.GetNewestProtocol()}, nil
}
