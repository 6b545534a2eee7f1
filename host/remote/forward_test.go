// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/emptypb"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/cri"
)

// backend is a runtime that knows no method by name: it notes each one and answers with empty messages.
type backend struct {
	mu     sync.Mutex
	called []string
	limits map[string]time.Duration // deadline of each call, 0 if there was none
	// answer, if set, answers instead.
	answer func(method string, stream grpc.ServerStream) error
}

func (b *backend) handle(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	_, name := splitMethod(method)
	b.mu.Lock()
	b.called = append(b.called, method)
	if deadline, ok := stream.Context().Deadline(); ok {
		b.limits[name] = time.Until(deadline)
	} else {
		b.limits[name] = 0
	}
	answer := b.answer
	b.mu.Unlock()
	if err := stream.RecvMsg(&emptypb.Empty{}); err != nil {
		return err
	}
	if answer != nil {
		return answer(name, stream)
	}
	return stream.SendMsg(&emptypb.Empty{})
}

// startBackend returns a connection to a backend.
func startBackend(t *testing.T, b *backend) *grpc.ClientConn {
	t.Helper()
	b.limits = map[string]time.Duration{}
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer(grpc.UnknownServiceHandler(b.handle), grpc.MaxSendMsgSize(cri.MaxMessageBytes), grpc.MaxRecvMsgSize(cri.MaxMessageBytes))
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(listener) })
	conn, err := NewConn(ConnOptions{Name: "containerd at /run/test.sock", Dial: listener.DialContext, Local: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		wg.Wait()
	})
	return conn
}

func TestEveryMethodOfTheRuntimeIsForwarded(t *testing.T) {
	b := &backend{}
	l := connect(t, &fakeHost{}, startBackend(t, b))
	var want []string
	for _, service := range []grpc.ServiceDesc{runtimeapi.RuntimeService_ServiceDesc, runtimeapi.ImageService_ServiceDesc} {
		for _, method := range service.Methods {
			full := "/" + service.ServiceName + "/" + method.MethodName
			want = append(want, full)
			if err := l.conn.Invoke(t.Context(), full, &emptypb.Empty{}, &emptypb.Empty{}); err != nil {
				t.Errorf("%s: %v", full, err)
			}
		}
		for _, method := range service.Streams {
			full := "/" + service.ServiceName + "/" + method.StreamName
			want = append(want, full)
			if n, err := drainStream(t.Context(), l.conn, full); n != 1 || err != nil {
				t.Errorf("%s: %d messages, %v", full, n, err)
			}
		}
	}
	if len(want) < 40 {
		t.Errorf("only %d methods", len(want))
	}
	for i, full := range want {
		if i >= len(b.called) || b.called[i] != full {
			t.Fatalf("forwarded %v,\nwant %v", b.called, want)
		}
	}
}

// drainStream calls a server streaming method and counts its messages.
func drainStream(ctx context.Context, conn *grpc.ClientConn, method string) (int, error) {
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		return 0, err
	}
	if err := stream.SendMsg(&emptypb.Empty{}); err != nil {
		return 0, err
	}
	if err := stream.CloseSend(); err != nil {
		return 0, err
	}
	for n := 0; ; n++ {
		err := stream.RecvMsg(&emptypb.Empty{})
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

func TestContentsAndErrorsOfTheRuntimePassAsTheyAre(t *testing.T) {
	b := &backend{answer: func(method string, stream grpc.ServerStream) error {
		switch method {
		case "ListContainers":
			return stream.SendMsg(&runtimeapi.ListContainersResponse{Containers: []*runtimeapi.Container{{Id: "c1", Labels: map[string]string{"k": "v"}}}})
		case "ListImages": // larger than gRPC's own limit
			return stream.SendMsg(&runtimeapi.ListImagesResponse{Images: []*runtimeapi.Image{{Id: strings.Repeat("x", 10<<20)}}})
		default:
			return status.Error(codes.NotFound, "an error occurred when try to find container \"x\": not found")
		}
	}}
	l := connect(t, &fakeHost{}, startBackend(t, b))
	runtime, images := runtimeapi.NewRuntimeServiceClient(l.conn), runtimeapi.NewImageServiceClient(l.conn)
	list, err := runtime.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
	if err != nil || len(list.GetContainers()) != 1 || list.GetContainers()[0].GetLabels()["k"] != "v" {
		t.Errorf("%v, %v", list, err)
	}
	large, err := images.ListImages(t.Context(), &runtimeapi.ListImagesRequest{})
	if err != nil || len(large.GetImages()[0].GetId()) != 10<<20 {
		t.Errorf("large message: %v", err)
	}
	_, err = runtime.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{})
	if got := status.Convert(err); got.Code() != codes.NotFound || got.Message() != `an error occurred when try to find container "x": not found` {
		t.Errorf("got %v", err)
	}
}

func TestCallsHaveTheKubeletsDeadlinesUnlessTheCallersAreShorter(t *testing.T) {
	b := &backend{}
	l := connect(t, &fakeHost{}, startBackend(t, b))
	runtime, images := runtimeapi.NewRuntimeServiceClient(l.conn), runtimeapi.NewImageServiceClient(l.conn)
	calls := func(ctx context.Context) {
		for _, err := range []error{
			second(runtime.Version(ctx, &runtimeapi.VersionRequest{})),
			second(runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{})),
			second(runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{Timeout: 30})),
			second(runtime.ExecSync(ctx, &runtimeapi.ExecSyncRequest{})),
			second(images.PullImage(ctx, &runtimeapi.PullImageRequest{})),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		stream, err := runtime.StreamContainers(ctx, &runtimeapi.StreamContainersRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = stream.Recv()
		}
	}
	near := func(name string, want time.Duration) {
		t.Helper()
		if got := b.limits[name]; got > want || got < want-10*time.Second {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	calls(t.Context())
	near("Version", 2*time.Minute)
	near("RunPodSandbox", 4*time.Minute)
	near("StopContainer", 2*time.Minute+30*time.Second)
	near("ExecSync", 0)
	near("PullImage", 0)
	near("StreamContainers", 2*time.Minute)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	calls(ctx)
	for _, name := range []string{"Version", "RunPodSandbox", "StopContainer", "ExecSync", "PullImage", "StreamContainers"} {
		near(name, 20*time.Second)
	}
}

func second[T any](_ T, err error) error { return err }

func TestDeadlinesOfAbsurdTimeoutsDoNotOverflow(t *testing.T) {
	for _, n := range []int64{-1, 0, 1, 1 << 40, 1<<63 - 1} {
		if got := unaryDeadline("", &runtimeapi.StopContainerRequest{Timeout: n}); got < cri.DefaultTimeout {
			t.Errorf("%d: %s", n, got)
		}
	}
}

func TestRuntimeThatIsDownIsNamed(t *testing.T) {
	conn, err := NewConn(ConnOptions{Name: "containerd at /run/test.sock", Local: true, Dial: func(context.Context) (net.Conn, error) {
		return nil, errors.New("no such file")
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	l := connect(t, &fakeHost{}, conn)
	_, err = runtimeapi.NewRuntimeServiceClient(l.conn).Version(t.Context(), &runtimeapi.VersionRequest{})
	if got := status.Convert(err); got.Code() != codes.Unavailable ||
		!strings.HasPrefix(got.Message(), "containerd at /run/test.sock is not reachable: ") || !strings.Contains(got.Message(), "no such file") {
		t.Errorf("got %v", err)
	}
}

func TestUnavailableOfTheRuntimeItselfIsNotCalledUnreachable(t *testing.T) {
	b := &backend{answer: func(string, grpc.ServerStream) error {
		return status.Error(codes.Unavailable, "server is not initialized yet")
	}}
	l := connect(t, &fakeHost{}, startBackend(t, b))
	_, err := runtimeapi.NewRuntimeServiceClient(l.conn).Version(t.Context(), &runtimeapi.VersionRequest{})
	if got := status.Convert(err).Message(); got != "server is not initialized yet" {
		t.Errorf("got %q", got)
	}
}

func TestRecoveryIsQuickOnceTheOtherEndIsBack(t *testing.T) {
	for name, tc := range map[string]struct {
		local  bool
		within time.Duration
	}{"on this machine": {true, 1200 * time.Millisecond}, "on another": {false, 2400 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				listener := bufconn.Listen(1 << 10)
				server := grpc.NewServer(grpc.UnknownServiceHandler((&backend{limits: map[string]time.Duration{}}).handle))
				var wg sync.WaitGroup
				wg.Go(func() { _ = server.Serve(listener) })
				defer wg.Wait()
				defer server.Stop()
				var up atomic.Bool
				conn, err := NewConn(ConnOptions{Name: "x", Local: tc.local, Dial: func(ctx context.Context) (net.Conn, error) {
					if !up.Load() {
						return nil, errors.New("down")
					}
					return listener.DialContext(ctx)
				}})
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				runtime := runtimeapi.NewRuntimeServiceClient(conn)
				for range 100 {
					time.Sleep(100 * time.Millisecond)
					if err := second(runtime.Version(t.Context(), &runtimeapi.VersionRequest{})); status.Code(err) != codes.Unavailable {
						t.Fatalf("got %v", err)
					}
				}
				up.Store(true)
				begin := time.Now()
				eventually(t, "an answer", func() bool {
					return second(runtime.Version(t.Context(), &runtimeapi.VersionRequest{})) == nil
				})
				if took := time.Since(begin); took > tc.within+50*time.Millisecond {
					t.Errorf("recovered after %s", took)
				}
			})
		})
	}
}

func TestSlowSubscriberOfEventsDoesNotHoldUpTheRuntime(t *testing.T) {
	sent := make(chan error, 1)
	b := &backend{answer: func(_ string, stream grpc.ServerStream) error {
		var err error
		payload := strings.Repeat("x", 10<<10)
		for i := 0; err == nil && i < 100_000; i++ {
			err = stream.SendMsg(&runtimeapi.ContainerEventResponse{ContainerId: fmt.Sprint(i, payload)})
		}
		sent <- err
		return err
	}}
	l := connect(t, &fakeHost{}, startBackend(t, b))
	stream, err := runtimeapi.NewRuntimeServiceClient(l.conn).GetContainerEvents(t.Context(), &runtimeapi.GetEventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	// Nothing is received, and the runtime is let go all the same.
	select {
	case err := <-sent:
		if err == nil {
			t.Error("the runtime sent everything into nowhere")
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the runtime is held up")
	}
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the subscriber sees %v", err)
	}
}

func TestEventsPassInOrderUntilTheRuntimeEndsThem(t *testing.T) {
	b := &backend{answer: func(_ string, stream grpc.ServerStream) error {
		for i := range 10 {
			if err := stream.SendMsg(&runtimeapi.ContainerEventResponse{ContainerId: fmt.Sprint(i)}); err != nil {
				return err
			}
		}
		return status.Error(codes.Unavailable, "going down")
	}}
	l := connect(t, &fakeHost{}, startBackend(t, b))
	stream, err := runtimeapi.NewRuntimeServiceClient(l.conn).GetContainerEvents(t.Context(), &runtimeapi.GetEventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if event, err := stream.Recv(); err != nil || event.GetContainerId() != fmt.Sprint(i) {
			t.Fatalf("event %d: %v, %v", i, event, err)
		}
	}
	if _, err := stream.Recv(); status.Convert(err).Message() != "going down" {
		t.Errorf("got %v", err)
	}
}

func TestServerEndsInBoundedTimeWithCallsUnderWay(t *testing.T) {
	begun := make(chan struct{}, 1)
	b := &backend{answer: func(_ string, stream grpc.ServerStream) error {
		begun <- struct{}{}
		<-stream.Context().Done()
		return stream.Context().Err()
	}}
	l := connect(t, &fakeHost{}, startBackend(t, b))
	done := make(chan error, 1)
	go func() {
		done <- second(runtimeapi.NewRuntimeServiceClient(l.conn).ExecSync(context.Background(), &runtimeapi.ExecSyncRequest{}))
	}()
	<-begun
	begin := time.Now()
	l.stop()
	if took := time.Since(begin); took < stopTimeout || took > stopTimeout+5*time.Second {
		t.Errorf("stopped after %s", took)
	}
	if err := <-done; status.Code(err) != codes.Unavailable {
		t.Errorf("the call ended with %v", err)
	}
}

func TestConnectionWithoutHTTP2IsNoAnswer(t *testing.T) {
	listener := bufconn.Listen(1 << 10)
	server := NewServer(ServerOptions{Host: &fakeHost{}, Runtime: nil})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(ctx, listener) })
	defer wg.Wait()
	defer cancel()
	conn, err := listener.DialContext(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(conn)
	if strings.Contains(string(answer), "HTTP/1.1") {
		t.Errorf("answered %q", answer)
	}
}
