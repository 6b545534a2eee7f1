// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/tombolo-dev/tombolo/link/pki"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lines collects log lines.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// with returns the lines that have a text.
func (l *lines) with(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for line := range strings.Lines(l.buf.String()) {
		if strings.Contains(line, text) {
			out = append(out, line)
		}
	}
	return out
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// authority issues certificates as files of a test.
type authority struct {
	t  *testing.T
	ca *pki.Authority
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	ca, err := pki.NewAuthority("test", pki.Lifetime{From: time.Now().Add(-time.Hour), Validity: 10 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return authority{t: t, ca: ca}
}

var (
	valid   = func() pki.Lifetime { return pki.Lifetime{From: time.Now(), Validity: time.Hour} }
	expired = func() pki.Lifetime {
		return pki.Lifetime{From: time.Now().Add(-30 * time.Minute), Validity: 10 * time.Minute}
	}
)

func (a authority) host(life pki.Lifetime) *pki.Pair {
	a.t.Helper()
	pair, err := a.ca.IssueHost("edge-1", []string{"127.0.0.1"}, life)
	if err != nil {
		a.t.Fatal(err)
	}
	return pair
}

func (a authority) node(life pki.Lifetime) *pki.Pair {
	a.t.Helper()
	pair, err := a.ca.IssueNode("node-1", life)
	if err != nil {
		a.t.Fatal(err)
	}
	return pair
}

// files writes a pair and the authority that the other end must come from.
func (a authority) files(pair *pki.Pair) Files {
	a.t.Helper()
	dir := a.t.TempDir()
	f := Files{CAFile: filepath.Join(dir, "ca.crt"), CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")}
	write(a.t, f.CAFile, a.ca.Pair().CertificatePEM)
	write(a.t, f.CertFile, pair.CertificatePEM)
	write(a.t, f.KeyFile, pair.KeyPEM)
	return f
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// server accepts connections with a host's credentials and says hello on each that it accepted.
type server struct {
	address string
	log     *lines
	refused *prometheus.Registry
	results chan error // of each handshake
}

func serve(t *testing.T, files Files, nodes ...string) *server {
	t.Helper()
	s := &server{log: &lines{}, refused: prometheus.NewRegistry(), results: make(chan error, 1000)}
	certificates, err := LoadCertificates(files, s.log.logger())
	if err != nil {
		t.Fatal(err)
	}
	credentials := certificates.ServerCredentials(ServerOptions{Nodes: nodes, Logger: s.log.logger(), Registerer: s.refused})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = listener.Addr().String()
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			raw, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer raw.Close()
				conn, _, err := credentials.ServerHandshake(raw)
				s.results <- err
				if err == nil {
					_, _ = io.WriteString(conn, "hello")
					_, _ = io.Copy(io.Discard, conn)
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		wg.Wait()
	})
	return s
}

func (s *server) target() Target { return Target{Scheme: SchemeTLS, Address: s.address} }

func newLink(t *testing.T, target Target, files Files, log *lines) *Link {
	t.Helper()
	return newMeasuredLink(t, target, files, log, nil)
}

func newMeasuredLink(t *testing.T, target Target, files Files, log *lines, registerer prometheus.Registerer) *Link {
	t.Helper()
	certificates, err := LoadCertificates(files, log.logger())
	if err != nil {
		t.Fatal(err)
	}
	l, err := New(Options{Target: target, Certificates: certificates, Clock: clock.RealClock{}, Logger: log.logger(), Registerer: registerer})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// requireMetrics compares the metrics of a node's link.
func requireMetrics(t *testing.T, registry *prometheus.Registry, up, losses int) {
	t.Helper()
	want := fmt.Sprintf(`# HELP tombolo_node_link_losses_total Connections to the host that ended after the host had spoken on them, whatever ended them.
# TYPE tombolo_node_link_losses_total counter
tombolo_node_link_losses_total %d
# HELP tombolo_node_link_up 1 while the host speaks on the connection to it, else 0.
# TYPE tombolo_node_link_up gauge
tombolo_node_link_up %d
`, losses, up)
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// greet dials and reads what the server says first.
func greet(t *testing.T, l *Link) (string, error) {
	t.Helper()
	conn, err := l.Dial(t.Context())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	text := make([]byte, 5)
	if _, err := io.ReadFull(conn, text); err != nil {
		return "", err
	}
	return string(text), nil
}

func TestLinkIsUpOnceTheOtherEndSpoke(t *testing.T) {
	a := newAuthority(t)
	s := serve(t, a.files(a.host(valid())))
	log, registry := &lines{}, prometheus.NewRegistry()
	l := newMeasuredLink(t, s.target(), a.files(a.node(valid())), log, registry)
	if state := l.State(); state.Up || state.Err != nil {
		t.Errorf("before the first dial: %+v", state)
	}
	requireMetrics(t, registry, 0, 0)
	conn, err := l.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if l.State().Up {
		t.Error("up before the other end spoke")
	}
	if _, err := io.ReadFull(conn, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	if state := l.State(); !state.Up || state.Err != nil {
		t.Errorf("after the first bytes: %+v", state)
	}
	requireMetrics(t, registry, 1, 0)
	_ = conn.Close()
	requireMetrics(t, registry, 0, 1)
	if state := l.State(); state.Up || state.Err == nil || !strings.Contains(state.Err.Error(), s.target().String()) {
		t.Errorf("after the connection ended: %+v", state)
	}
	if got := s.log.with("connection accepted"); len(got) != 1 || !strings.Contains(got[0], "node=node-1") {
		t.Errorf("log of the host: %q", got)
	}
	if len(log.with("link is up")) != 1 || len(log.with("link is down")) != 1 {
		t.Errorf("log: %s", log.buf.String())
	}
}

func TestEndOfAnOlderConnectionDoesNotBringTheLinkDown(t *testing.T) {
	a := newAuthority(t)
	s := serve(t, a.files(a.host(valid())))
	l := newLink(t, s.target(), a.files(a.node(valid())), &lines{})
	var conns [2]net.Conn
	for i := range conns {
		conn, err := l.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		conns[i] = conn
	}
	_ = conns[0].Close()
	if !l.State().Up {
		t.Error("down although the newer connection is there")
	}
	_ = conns[1].Close()
	if l.State().Up {
		t.Error("up without a connection")
	}
}

func TestDialThatFailsIsUnavailableAndLoggedOnce(t *testing.T) {
	log := &lines{}
	socket := filepath.Join(t.TempDir(), "containerd.sock")
	l, err := New(Options{Target: Target{Scheme: SchemeUnix, Address: socket}, Clock: clock.RealClock{}, Logger: log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := l.Dial(t.Context()); !errdefs.IsUnavailable(err) || !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("got %v", err)
		}
	}
	if got := log.with("link cannot be made"); len(got) != 1 || !strings.Contains(got[0], socket) {
		t.Errorf("log: %q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Dial(ctx); errdefs.IsUnavailable(err) {
		t.Errorf("a cancelled dial is called a failure: %v", err)
	}
}

func TestErrorsThatDifferOnlyInNumbersAreLoggedOnceAMinute(t *testing.T) {
	log := &lines{}
	clk := clocktesting.NewFakePassiveClock(time.Now())
	tracked := newTracker("tls://192.0.2.1:1", clk, log.logger())
	count := func() int { return len(log.with("link cannot be made")) }
	for port := range 5 {
		tracked.failed(fmt.Errorf("read tcp 192.0.2.2:%d->192.0.2.1:1: connection reset by peer", 40000+port))
	}
	if count() != 1 {
		t.Errorf("%d lines for one error", count())
	}
	tracked.failed(errors.New("no route to host"))
	if count() != 2 {
		t.Errorf("%d lines for two errors", count())
	}
	clk.SetTime(clk.Now().Add(repeatedErrorInterval))
	tracked.failed(errors.New("no route to host"))
	if count() != 3 {
		t.Errorf("%d lines after a minute", count())
	}
}

func TestUnixLinkCarriesBytes(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "hello")
		_ = conn.Close()
	})
	l, err := New(Options{Target: Target{Scheme: SchemeUnix, Address: socket}, Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := greet(t, l); err != nil || text != "hello" {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestClosedLinkReportsNothing(t *testing.T) {
	a := newAuthority(t)
	s := serve(t, a.files(a.host(valid())))
	log := &lines{}
	l := newLink(t, s.target(), a.files(a.node(valid())), log)
	conn, err := l.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	l.Close()
	_ = conn.Close()
	if got := log.with("link is down"); len(got) != 0 {
		t.Errorf("log: %q", got)
	}
}

func TestParseTarget(t *testing.T) {
	for text, want := range map[string]Target{
		"unix:///run/containerd/containerd.sock": {SchemeUnix, "/run/containerd/containerd.sock"},
		"tls://192.0.2.1:8470":                   {SchemeTLS, "192.0.2.1:8470"},
		"tls://[2001:db8::1]:8470":               {SchemeTLS, "[2001:db8::1]:8470"},
		"tls://edge-1.example.com:8470":          {SchemeTLS, "edge-1.example.com:8470"},
	} {
		got, err := ParseTarget(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "/run/containerd.sock", "unix://run/x", "tls://host", "tls://:8470", "tls://2001:db8::1:1", "http://x", "http://x:1"} {
		if got, err := ParseTarget(text); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func FuzzParseTarget(f *testing.F) {
	for _, seed := range []string{"unix:///a", "tls://a:1", "tls://[::1]:1", "x://", "", "ssh://a@b", "ssh://a@[::1]:1", "reverse://a.b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		target, err := ParseTarget(text)
		if err != nil {
			return
		}
		if again, err := ParseTarget(target.String()); err != nil || again != target || target.Scheme != SchemeSSH && target.String() != text {
			t.Errorf("%q became %q", text, target)
		}
	})
}
