// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/containerd/errdefs"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/host/hostpb"
)

func TestHeaderTellsWhatIsSpoken(t *testing.T) {
	for header, want := range map[string]tongue{
		tongue{"v1.2.3", 2, 5}.header():                  {"v1.2.3", 2, 5},
		tongue{"v1\r\n\x00é", 1, 1}.header():             {"v1????", 1, 1},
		tongue{strings.Repeat("x", 1000), 1, 1}.header(): {strings.Repeat("x", maxVersion), 1, 1},
		"1-2":                       {"", 1, 2},
		"":                          {},
		"v9":                        {},
		"1-99999999999999999999 v9": {version: "v9"},
		"-1-2 v9":                   {version: "v9"},
		"1-2 " + strings.Repeat("y", 1000) + "\x1b[31mred": {strings.Repeat("y", maxVersion), 1, 2},
	} {
		if got := parseTongue(header); got != want {
			t.Errorf("%q: %+v, want %+v", header, got, want)
		}
	}
}

// harbour is a host whose program is replaced under a node's client.
type harbour struct {
	listener atomic.Pointer[bufconn.Listener]
	log      strings.Builder
}

// serve serves with a program that speaks in its own way, until stop is called.
func (h *harbour) serve(t *testing.T, speaks tongue) (stop func()) {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := NewServer(ServerOptions{
		Host: &fakeHost{facts: &host.Facts{MachineID: "m"}}, Logger: slog.New(slog.NewTextHandler(&h.log, nil)), speaks: speaks,
	})
	return h.run(t, listener, func(ctx context.Context) { _ = server.Serve(ctx, listener) })
}

// former is a host of a time when nobody told what is spoken.
type former struct {
	hostpb.UnimplementedHostServiceServer
}

func (former) Hello(context.Context, *hostpb.HelloRequest) (*hostpb.HelloResponse, error) {
	return &hostpb.HelloResponse{Version: "v0.1"}, nil
}

func (former) Facts(context.Context, *hostpb.FactsRequest) (*hostpb.FactsResponse, error) {
	return &hostpb.FactsResponse{MachineId: "m"}, nil
}

func (h *harbour) serveFormer(t *testing.T) (stop func()) {
	t.Helper()
	listener, server := bufconn.Listen(1<<20), grpc.NewServer()
	hostpb.RegisterHostServiceServer(server, former{})
	return h.run(t, listener, func(ctx context.Context) {
		defer context.AfterFunc(ctx, server.Stop)()
		_ = server.Serve(listener)
	})
}

func (h *harbour) run(t *testing.T, listener *bufconn.Listener, serve func(context.Context)) (stop func()) {
	h.listener.Store(listener)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { serve(ctx) })
	stop = func() { cancel(); wg.Wait() }
	t.Cleanup(stop)
	return stop
}

// told is what a node hears of the host.
type told struct {
	mu   sync.Mutex
	host string
	err  error
}

func (h *harbour) node(t *testing.T, speaks tongue) (host.Host, *told) {
	t.Helper()
	heard := &told{}
	conn, err := NewConn(ConnOptions{
		Name: "host test", Local: true, speaks: speaks,
		Dial: func(ctx context.Context) (net.Conn, error) { return h.listener.Load().DialContext(ctx) },
		Negotiated: func(host string, err error) {
			heard.mu.Lock()
			defer heard.mu.Unlock()
			heard.host, heard.err = host, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return NewClient(conn, ClientOptions{}), heard
}

func TestEndsThatSpeakNothingInCommonRefuseEachOtherWithTheRemedy(t *testing.T) {
	for name, tc := range map[string]struct {
		node, host tongue // the zero host is a former one
		want       []string
	}{
		"the same":                     {tongue{"v5", 3, 4}, tongue{"v5", 3, 4}, nil},
		"the node is older":            {tongue{"v4", 2, 3}, tongue{"v5", 3, 4}, nil},
		"the host is older":            {tongue{"v6", 4, 6}, tongue{"v5", 3, 4}, nil},
		"the host does not tell":       {tongue{"v1", 1, 2}, tongue{}, nil},
		"the node is too old":          {tongue{"v1", 1, 2}, tongue{"v5", 3, 4}, []string{"tombolo v1 with protocols 1 to 2", "tombolo v5 with protocols 3 to 4", "the node is too old", "replace the program of the node by tombolo v5"}},
		"the host is too old":          {tongue{"v9", 5, 5}, tongue{"v5", 3, 4}, []string{"tombolo v9 with protocol 5", "tombolo v5 with protocols 3 to 4", "the host is too old", "replace tombolo host by tombolo v9"}},
		"the host is too old to tell":  {tongue{"v9", 2, 5}, tongue{}, []string{"tombolo v9 with protocols 2 to 5", "tombolo v0.1 with protocol 1", "the host is too old", "replace tombolo host by tombolo v9"}},
		"this version and this one":    {native("v1"), native("v2"), nil},
		"this version and former ones": {native("v1"), tongue{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := &harbour{}
			if tc.host == (tongue{}) {
				h.serveFormer(t)
			} else {
				h.serve(t, tc.host)
			}
			node, heard := h.node(t, tc.node)
			_, err := node.Facts(t.Context())
			if tc.want == nil {
				if err != nil || heard.err != nil || heard.host == "" {
					t.Errorf("%v, told %+v", err, heard)
				}
				return
			}
			stream := node.ReadLog(t.Context(), host.LogRequest{Path: "/x"}, io.Discard, io.Discard)
			var skewed *SkewError
			if !errors.As(heard.err, &skewed) || skewed.Remedy == "" {
				t.Errorf("told %v", heard.err)
			}
			for _, err := range []error{err, stream, heard.err} {
				for _, text := range tc.want {
					if err == nil || !strings.Contains(err.Error(), text) {
						t.Errorf("%v, want %q in it", err, text)
					}
				}
			}
			if !errdefs.IsUnavailable(err) || !errdefs.IsUnavailable(stream) {
				t.Errorf("%v and %v say something of pods", err, stream)
			}
		})
	}
}

// A node that does not negotiate is one that is too old to.
func TestHostRefusesANodeThatIsTooOldToKnowBetter(t *testing.T) {
	h := &harbour{}
	h.serve(t, tongue{"v5", 2, 4})
	conn, err := NewConn(ConnOptions{Name: "host test", Local: true, Dial: func(ctx context.Context) (net.Conn, error) { return h.listener.Load().DialContext(ctx) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	node := NewClient(conn, ClientOptions{})
	for range 3 {
		_, err := node.ListPods(t.Context())
		if !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), "the node is tombolo of an earlier version with protocol 1") || !strings.Contains(err.Error(), "replace the program of the node by tombolo v5") {
			t.Errorf("%v", err)
		}
	}
	if n := strings.Count(h.log.String(), "a node is refused"); n != 1 {
		t.Errorf("told %d times: %s", n, h.log.String())
	}
}

func TestReplacedHostIsAskedAnew(t *testing.T) {
	h := &harbour{}
	stop := h.serve(t, tongue{"v1", 1, 1})
	node, heard := h.node(t, tongue{"v5", 2, 3})
	if _, err := node.Facts(t.Context()); err == nil {
		t.Fatal("a host that is too old was used")
	}
	stop()
	stop = h.serve(t, tongue{"v4", 1, 2})
	eventually(t, "the new program is used", func() bool { _, err := node.Facts(t.Context()); return err == nil })
	if heard.host != "v4" || heard.err != nil {
		t.Errorf("told %+v", heard)
	}
	stop()
	h.serve(t, tongue{"v9", 9, 9})
	eventually(t, "the next one is refused", func() bool {
		_, err := node.Facts(t.Context())
		return err != nil && strings.Contains(err.Error(), "the node is too old")
	})
}
