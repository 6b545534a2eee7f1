// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/tombolo-dev/tombolo/host"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// longTimeout is more than any try takes that ends by itself.
const longTimeout = 20 * time.Second

// target splits the address of a server.
func target(t testing.TB, address string) (name string, port int32) {
	t.Helper()
	name, text, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return name, int32(n)
}

// request asks a server for a path.
func request(t testing.TB, server *httptest.Server, path string, headers ...host.Header) *host.HTTPRequest {
	t.Helper()
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	name, port := target(t, u.Host)
	return &host.HTTPRequest{Scheme: u.Scheme, Host: name, Port: port, Path: path, Headers: headers}
}

// serve runs an HTTP server as long as the test.
func serve(t testing.TB, handle http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return server
}

// listenMute accepts connections and never says anything on them. closed returns how many the other side ended.
func listenMute(t testing.TB) (address string, closed func() int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	ended := 0
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				for p := make([]byte, 1024); ; {
					if _, err := conn.Read(p); err != nil {
						mu.Lock()
						defer mu.Unlock()
						ended++
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		wg.Wait()
	})
	return listener.Addr().String(), func() int {
		mu.Lock()
		defer mu.Unlock()
		return ended
	}
}

// freePort returns an address that refuses connections.
func freePort(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func try(t testing.TB, req host.ProbeRequest) *host.ProbeResult {
	t.Helper()
	if req.Timeout == 0 {
		req.Timeout = longTimeout
	}
	result, err := Try(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// tryLonger tries again and again, with more and more time, until the failure is the wanted one: a busy machine may need long
// to come to where the server stops.
func tryLonger(t testing.TB, req host.ProbeRequest, want func(timeout time.Duration) string) {
	t.Helper()
	var got *host.ProbeResult
	for req.Timeout = 50 * time.Millisecond; req.Timeout < longTimeout; req.Timeout *= 3 {
		got = try(t, req)
		if got.Outcome == host.ProbeFailure && strings.Contains(got.Output, want(req.Timeout)) {
			return
		}
	}
	t.Errorf("got %+v, want %q", got, want(req.Timeout/3))
}

func TestRequestsThatMakeNoSenseAreErrorsThatNameTheFault(t *testing.T) {
	good := host.TCPRequest{Host: "127.0.0.1", Port: 1}
	for name, test := range map[string]struct {
		req  host.ProbeRequest
		want string
	}{
		"no action":   {host.ProbeRequest{Timeout: 1}, "exactly one"},
		"two actions": {host.ProbeRequest{Timeout: 1, TCP: &good, GRPC: &host.GRPCRequest{Host: "h", Port: 1}}, "exactly one"},
		"no timeout":  {host.ProbeRequest{TCP: &good}, "timeout"},
		"no host":     {host.ProbeRequest{Timeout: 1, TCP: &host.TCPRequest{Port: 1}}, "host"},
		"port 0":      {host.ProbeRequest{Timeout: 1, GRPC: &host.GRPCRequest{Host: "h"}}, "port 0"},
		"large port":  {host.ProbeRequest{Timeout: 1, TCP: &host.TCPRequest{Host: "h", Port: 65536}}, "port 65536"},
		"scheme":      {host.ProbeRequest{Timeout: 1, HTTPGet: &host.HTTPRequest{Scheme: "HTTP", Host: "h", Port: 1}}, "scheme"},
		"bad host":    {host.ProbeRequest{Timeout: 1, HTTPGet: &host.HTTPRequest{Scheme: "http", Host: "a b", Port: 1}}, "making a request"},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := Try(t.Context(), test.req)
			if result != nil || !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %+v, %v", result, err)
			}
		})
	}
}

func TestTCPConnectsOrSaysWhyNot(t *testing.T) {
	address, _ := listenMute(t)
	name, port := target(t, address)
	if diff := cmp.Diff(&host.ProbeResult{Outcome: host.ProbeSuccess}, try(t, host.ProbeRequest{TCP: &host.TCPRequest{Host: name, Port: port}})); diff != "" {
		t.Error(diff)
	}
	refused := freePort(t)
	name, port = target(t, refused)
	want := failure(fmt.Sprintf("dial tcp %s: connect: connection refused", refused))
	if diff := cmp.Diff(want, try(t, host.ProbeRequest{TCP: &host.TCPRequest{Host: name, Port: port}})); diff != "" {
		t.Error(diff)
	}
}

func TestTCPTriesThatAreNotAcceptedTimeOut(t *testing.T) {
	address := fullListener(t)
	name, port := target(t, address)
	want := failure(fmt.Sprintf("dial tcp %s: i/o timeout", address))
	if diff := cmp.Diff(want, try(t, host.ProbeRequest{TCP: &host.TCPRequest{Host: name, Port: port}, Timeout: 100 * time.Millisecond})); diff != "" {
		t.Error(diff)
	}
}

func TestEndOfTheCallerSaysNothingOfTheProgram(t *testing.T) {
	address, _ := listenMute(t)
	name, port := target(t, address)
	fullName, fullPort := target(t, fullListener(t))
	for what, req := range map[string]host.ProbeRequest{
		"http": {HTTPGet: &host.HTTPRequest{Scheme: "http", Host: name, Port: port}},
		"tcp":  {TCP: &host.TCPRequest{Host: fullName, Port: fullPort}},
		"grpc": {GRPC: &host.GRPCRequest{Host: name, Port: port}},
	} {
		t.Run(what, func(t *testing.T) {
			req.Timeout = longTimeout
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if result, err := Try(ctx, req); result != nil || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %+v, %v", result, err)
			}
		})
	}
}

// TestManyTriesThatAreNotAnsweredLeaveNothingBehind also relies on TestMain, which looks for goroutines.
func TestManyTriesThatAreNotAnsweredLeaveNothingBehind(t *testing.T) {
	const tries, atOnce = 1000, 50
	address, closed := listenMute(t)
	name, port := target(t, address)
	fullName, fullPort := target(t, fullListener(t))
	before := openFiles(t)
	kinds := []host.ProbeRequest{
		{HTTPGet: &host.HTTPRequest{Scheme: "http", Host: name, Port: port}},
		{HTTPGet: &host.HTTPRequest{Scheme: "https", Host: name, Port: port}},
		{GRPC: &host.GRPCRequest{Host: name, Port: port}},
		{HTTPGet: &host.HTTPRequest{Scheme: "http", Host: fullName, Port: fullPort}}, // never connects
		{TCP: &host.TCPRequest{Host: fullName, Port: fullPort}},
	}
	var wg sync.WaitGroup
	for worker := range atOnce {
		wg.Go(func() {
			for i := range tries / atOnce {
				req := kinds[(worker+i)%len(kinds)]
				req.Timeout = 30 * time.Millisecond
				if result, err := Try(t.Context(), req); err != nil || result.Outcome != host.ProbeFailure {
					t.Errorf("%+v: %+v, %v", req, result, err)
				}
			}
		})
	}
	wg.Wait()
	if n := closed(); n == 0 {
		t.Error("no try reached the server")
	}
	for deadline := time.Now().Add(10 * time.Second); openFiles(t) > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d files are open, %d were before", openFiles(t), before)
		}
	}
}

func openFiles(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestOutputIsCutAndValid(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("\xff" + strings.Repeat("ä", maxOutput)))
	})
	got := try(t, host.ProbeRequest{HTTPGet: request(t, server, "/")})
	if got.Outcome != host.ProbeSuccess || !utf8.ValidString(got.Output) || len(got.Output) > maxOutput+4 || len(got.Output) < maxOutput {
		t.Errorf("%d bytes, outcome %d", len(got.Output), got.Outcome)
	}
}
