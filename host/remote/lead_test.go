// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/tombolo-dev/tombolo/host"
)

// shared is a host that several nodes are led to.
type shared struct {
	listener *bufconn.Listener
	clock    *clocktesting.FakePassiveClock
	log      *strings.Builder
}

func share(t *testing.T) *shared {
	t.Helper()
	s := &shared{listener: bufconn.Listen(1 << 20), clock: clocktesting.NewFakePassiveClock(time.Unix(1_800_000_000, 0)), log: &strings.Builder{}}
	server := NewServer(ServerOptions{
		Host: &fakeHost{facts: &host.Facts{}}, Runtime: nil, Clock: s.clock, Logger: slog.New(slog.NewTextHandler(s.log, nil)),
	})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(ctx, s.listener) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return s
}

// node is a process that says who it is, "" for one that does not.
func (s *shared) node(t *testing.T, name string) host.Host {
	t.Helper()
	conn, err := NewConn(ConnOptions{
		Name: "host test", Node: func() string { return name },
		Dial: func(ctx context.Context) (net.Conn, error) { return s.listener.DialContext(ctx) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return NewClient(conn, ClientOptions{})
}

func TestHostDoesAsOneNodeSaysAndTellsOthersWhichOne(t *testing.T) {
	s := share(t)
	first, again, second, looker := s.node(t, "node a of cluster 1"), s.node(t, "node a of cluster 1"), s.node(t, "node a of cluster 2"), s.node(t, "")
	refused := func(by host.Host) {
		t.Helper()
		for range 3 {
			err := by.SetCgroupTiers(t.Context(), 2)
			if !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), "is led by node a of cluster 1, from ") || !strings.Contains(err.Error(), "and not by node a of cluster 2: stop one of the two") {
				t.Errorf("a second node: %v", err)
			}
		}
		if err := by.WatchPods(t.Context(), host.WatchRequest{}, func(host.PodsChanged) error { return nil }); !errdefs.IsUnavailable(err) {
			t.Errorf("a stream of a second node: %v", err)
		}
		if _, err := by.Facts(t.Context()); !errdefs.IsUnavailable(err) {
			t.Errorf("a second node would say that it is ready: %v", err)
		}
	}
	leads := func(by host.Host) {
		t.Helper()
		if err := by.SetCgroupTiers(t.Context(), 2); err != nil {
			t.Error(err)
		}
	}
	leads(first)
	refused(second)
	leads(again) // another process of the same node, at once
	s.clock.SetTime(s.clock.Now().Add(leadSilence - time.Second))
	refused(second)
	leads(first)
	if _, err := looker.Facts(t.Context()); err != nil {
		t.Errorf("who only looks: %v", err)
	}
	s.clock.SetTime(s.clock.Now().Add(leadSilence))
	leads(second)
	if err := first.SetCgroupTiers(t.Context(), 2); !errdefs.IsUnavailable(err) {
		t.Errorf("the former one: %v", err)
	}
	if n := strings.Count(s.log.String(), "another node wants to lead this host"); n != 2 {
		t.Errorf("%d lines tell of who was refused: %s", n, s.log)
	}
}

// certified is a call of who shows a certificate of a name, and says who it is.
func certified(ctx context.Context, name, says string) context.Context {
	return peer.NewContext(metadata.NewIncomingContext(ctx, metadata.Pairs(leaderHeader, says)), &peer.Peer{
		Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1},
		AuthInfo: credentials.TLSInfo{State: tls.ConnectionState{
			PeerCertificates: []*x509.Certificate{{Subject: pkix.Name{CommonName: name}}},
		}},
	})
}

func TestNodeCannotPassForTheLeaderWithACertificateOfAnotherName(t *testing.T) {
	l := newLead(clocktesting.NewFakePassiveClock(time.Unix(1_800_000_000, 0)), slog.New(slog.DiscardHandler))
	const method = "/x/Y"
	const edge1 = "node edge-1 of cluster 1"
	if err := l.allow(certified(t.Context(), "edge-1", edge1), method); err != nil {
		t.Fatal(err)
	}
	if l.leader != edge1 {
		t.Errorf("the leader is %q", l.leader)
	}
	err := l.allow(certified(t.Context(), "edge-2", edge1), method)
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "is led by "+edge1+", from 192.0.2.1") || !strings.Contains(err.Error(), "and not by edge-2 (by its certificate") {
		t.Errorf("a node that says it is another one: %v", err)
	}
	if err := l.allow(certified(t.Context(), "edge-1", "node edge-1 of cluster 2"), method); status.Code(err) != codes.Unavailable {
		t.Errorf("one of the same name in another cluster: %v", err)
	}
	if err := l.allow(certified(t.Context(), "edge", edge1), method); status.Code(err) != codes.Unavailable {
		t.Errorf("one whose name begins the same: %v", err)
	}
	if err := l.allow(certified(t.Context(), "edge-1", edge1), method); err != nil {
		t.Errorf("the leader itself: %v", err)
	}
}

func TestNodesThatAreRefusedInTurnDoNotFillTheLog(t *testing.T) {
	var log strings.Builder
	l := newLead(clocktesting.NewFakePassiveClock(time.Unix(1_800_000_000, 0)), slog.New(slog.NewTextHandler(&log, nil)))
	if err := l.allow(certified(t.Context(), "a", "node a"), "/x/Y"); err != nil {
		t.Fatal(err)
	}
	const asked = 1000
	for i := range asked {
		if err := l.allow(certified(t.Context(), "b", []string{"x", "y"}[i%2]), "/x/Y"); err == nil {
			t.Fatal("allowed")
		}
	}
	if n := strings.Count(log.String(), "and is refused"); n == 0 || n > asked/10 {
		t.Errorf("%d lines of %d", n, asked)
	}
}
