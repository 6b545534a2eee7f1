// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package fakecri

import (
	"context"
	"net"
	"path"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/cri"
)

// Client returns a client of the runtime with the identity of the options. Calls happen in the caller's goroutine,
// without a connection in between.
func (r *Runtime) Client() *cri.Client {
	return cri.NewClient(r.Conn(), cri.ClientOptions{Identity: r.identity})
}

// Conn returns a connection that carries messages (encoded and decoded, as on a wire) in the caller's goroutine.
func (r *Runtime) Conn() grpc.ClientConnInterface { return conn{r} }

// Server returns a gRPC server with both services. The caller serves and stops it.
func (r *Runtime) Server(o ...grpc.ServerOption) *grpc.Server {
	s := grpc.NewServer(append(o, grpc.ChainUnaryInterceptor(r.intercept), grpc.MaxRecvMsgSize(cri.MaxMessageBytes))...)
	runtimeapi.RegisterRuntimeServiceServer(s, runtimeServer{r: r})
	runtimeapi.RegisterImageServiceServer(s, imageServer{r: r})
	return s
}

// Dial returns a real gRPC connection to the runtime, in memory, that ends with the test.
func (r *Runtime) Dial(t testing.TB) *grpc.ClientConn {
	t.Helper()
	lis := bufconn.Listen(1 << 20)
	server := r.Server()
	served := make(chan error, 1)
	go func() { served <- server.Serve(lis) }()
	cc, err := grpc.NewClient("passthrough:///fakecri",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cc.Close(); err != nil {
			t.Error(err)
		}
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return cc
}

type conn struct{ r *Runtime }

var _ grpc.ClientConnInterface = conn{}

// Invoke calls the method as a server would.
func (c conn) Invoke(ctx context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	handler, srv := c.method(method)
	if handler == nil {
		return status.Errorf(codes.Unimplemented, "unknown method %s", method)
	}
	decode := func(into any) error { return recode(into, args) }
	resp, err := handler(srv, ctx, decode, c.r.intercept)
	if err != nil {
		return err
	}
	proto.Merge(reply.(proto.Message), resp.(proto.Message)) // so that the caller may keep and change it
	return nil
}

// NewStream is not offered: the CRI's lists are unary here.
func (c conn) NewStream(
	_ context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption,
) (grpc.ClientStream, error) {
	return nil, status.Errorf(codes.Unimplemented, "unknown method %s", method)
}

func (c conn) method(full string) (grpc.MethodHandler, any) {
	for _, s := range []struct {
		desc grpc.ServiceDesc
		srv  any
	}{
		{runtimeapi.RuntimeService_ServiceDesc, runtimeServer{r: c.r}},
		{runtimeapi.ImageService_ServiceDesc, imageServer{r: c.r}},
	} {
		if path.Dir(full) != "/"+s.desc.ServiceName {
			continue
		}
		for _, m := range s.desc.Methods {
			if m.MethodName == path.Base(full) {
				return m.Handler, s.srv
			}
		}
	}
	return nil, nil
}

// recode copies a request by way of its encoding, which also checks it (strings must be UTF-8).
func recode(to, from any) error {
	b, err := proto.Marshal(from.(proto.Message))
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	if err := proto.Unmarshal(b, to.(proto.Message)); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	return nil
}
