// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tombolo-dev/tombolo/host"
)

// health answers by the name of the service.
type health struct {
	grpc_health_v1.UnimplementedHealthServer
	agent chan string
}

func (h health) Check(ctx context.Context, r *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	select {
	case h.agent <- strings.Join(md.Get("user-agent"), ","):
	default:
	}
	switch r.GetService() {
	case "", "good":
		return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
	case "bad":
		return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_NOT_SERVING}, nil
	case "odd":
		return &grpc_health_v1.HealthCheckResponse{}, nil
	case "slow":
		<-ctx.Done()
		return nil, ctx.Err()
	default:
		return nil, status.Error(codes.NotFound, "unknown service")
	}
}

// serveGRPC runs a gRPC server as long as the test.
func serveGRPC(t testing.TB, register func(*grpc.Server)) (name string, port int32) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	register(server)
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		server.Stop()
		wg.Wait()
	})
	return target(t, listener.Addr().String())
}

func TestOnlyAServiceThatServesIsHealthy(t *testing.T) {
	h := health{agent: make(chan string, 1)}
	name, port := serveGRPC(t, func(s *grpc.Server) { grpc_health_v1.RegisterHealthServer(s, h) })
	for service, want := range map[string]*host.ProbeResult{
		"":     {Outcome: host.ProbeSuccess, Output: "service healthy"},
		"good": {Outcome: host.ProbeSuccess, Output: "service healthy"},
		"bad":  failure(`service unhealthy (responded with "NOT_SERVING")`),
		"odd":  failure(`service unhealthy (responded with "UNKNOWN")`),
		"none": failure("error: health rpc probe failed: rpc error: code = NotFound desc = unknown service"),
	} {
		got := try(t, host.ProbeRequest{GRPC: &host.GRPCRequest{Host: name, Port: port, Service: service, UserAgent: "kube-probe/1.37"}})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", service, diff)
		}
	}
	tryLonger(t, host.ProbeRequest{GRPC: &host.GRPCRequest{Host: name, Port: port, Service: "slow"}}, func(timeout time.Duration) string {
		return fmt.Sprintf("timeout: health rpc did not complete within %s", timeout)
	})
	if agent := <-h.agent; !strings.HasPrefix(agent, "kube-probe/1.37 grpc-go/") {
		t.Errorf("calls itself %q", agent)
	}
}

func TestServerWithoutHealthServiceFails(t *testing.T) {
	name, port := serveGRPC(t, func(*grpc.Server) {})
	want := failure("error: this server does not implement the grpc health protocol (grpc.health.v1.Health): unknown service grpc.health.v1.Health")
	if diff := cmp.Diff(want, try(t, host.ProbeRequest{GRPC: &host.GRPCRequest{Host: name, Port: port}})); diff != "" {
		t.Error(diff)
	}
}

func TestServerThatDoesNotSpeakGRPCFailsWhenTheTimeIsUp(t *testing.T) {
	encrypted := httptest.NewTLSServer(nil)
	t.Cleanup(encrypted.Close)
	mute, _ := listenMute(t)
	for name, address := range map[string]string{
		"nobody listens": freePort(t), "says nothing": mute, "TLS only": encrypted.Listener.Addr().String(),
	} {
		t.Run(name, func(t *testing.T) {
			name, port := target(t, address)
			want := failure(fmt.Sprintf("timeout: failed to connect service %q within 200ms: context deadline exceeded", address))
			got := try(t, host.ProbeRequest{GRPC: &host.GRPCRequest{Host: name, Port: port}, Timeout: 200 * time.Millisecond})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// answerOnce returns the address of a server that gives its first caller an answer and hangs up.
func answerOnce(t testing.TB, answer []byte) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = conn.Write(answer)
		_ = conn.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
	})
	t.Cleanup(func() {
		_ = listener.Close()
		wg.Wait()
	})
	return listener.Addr().String()
}

// checkResult makes a try that must end in a result that can be told.
func checkResult(t testing.TB, req host.ProbeRequest) {
	t.Helper()
	result, err := Try(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if !utf8.ValidString(result.Output) || len(result.Output) > 3*maxOutput {
		t.Errorf("output of %d bytes: %q", len(result.Output), result.Output)
	}
}

func FuzzAnswerOfAGRPCServer(f *testing.F) {
	settings := "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	for _, seed := range []string{"", settings, settings + "\x00\x00\x01\x01\x05\x00\x00\x00\x01\x88", settings + "\x00\x00\x08\x07\x00\x00\x00\x00\x00aaaaaaaa", "HTTP/1.1 200 OK\r\n\r\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		name, port := target(t, answerOnce(t, answer))
		checkResult(t, host.ProbeRequest{GRPC: &host.GRPCRequest{Host: name, Port: port}, Timeout: 100 * time.Millisecond})
	})
}
