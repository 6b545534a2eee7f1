// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
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

func serve(t *testing.T, files Files) *server {
	t.Helper()
	s := &server{log: &lines{}, refused: prometheus.NewRegistry(), results: make(chan error, 10)}
	certificates, err := LoadCertificates(files, s.log.logger())
	if err != nil {
		t.Fatal(err)
	}
	credentials := certificates.ServerCredentials(ServerOptions{Logger: s.log.logger(), Registerer: s.refused})
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
	certificates, err := LoadCertificates(files, log.logger())
	if err != nil {
		t.Fatal(err)
	}
	l, err := New(Options{Target: target, Certificates: certificates, Clock: clock.RealClock{}, Logger: log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	return l
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
	log := &lines{}
	l := newLink(t, s.target(), a.files(a.node(valid())), log)
	if state := l.State(); state.Up || state.Err != nil {
		t.Errorf("before the first dial: %+v", state)
	}
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
	_ = conn.Close()
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

func TestRefusedCertificatesAreNamedOnBothEnds(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	trustOther := func(pair *pki.Pair, trusted authority) Files {
		files := a.files(pair)
		write(t, files.CAFile, trusted.ca.Pair().CertificatePEM)
		return files
	}
	for name, test := range map[string]struct {
		host, node         Files
		wantHost, wantNode string
	}{
		"node of another authority": {
			host: a.files(a.host(valid())), node: trustOther(other.node(valid()), a),
			wantHost: "unknown authority", wantNode: "refused our certificate: remote error: tls: unknown certificate authority",
		},
		"node expired": {
			host: a.files(a.host(valid())), node: a.files(a.node(expired())),
			wantHost: "certificate has expired", wantNode: "refused our certificate: remote error: tls: expired certificate",
		},
		"node shows a host certificate": {
			host: a.files(a.host(valid())), node: a.files(a.host(valid())),
			wantHost: "incompatible key usage", wantNode: "refused our certificate: remote error: tls: bad certificate",
		},
		"host of another authority": {
			host: trustOther(other.host(valid()), a), node: a.files(a.node(valid())),
			wantHost: "remote error: tls: bad certificate", wantNode: "signed by unknown authority",
		},
		"host expired": {
			host: a.files(a.host(expired())), node: a.files(a.node(valid())),
			wantHost: "remote error: tls: bad certificate", wantNode: "certificate has expired",
		},
		"host shows a node certificate": {
			host: a.files(a.node(valid())), node: a.files(a.node(valid())),
			wantHost: "remote error: tls: bad certificate", wantNode: "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, test.host)
			log := &lines{}
			l := newLink(t, s.target(), test.node, log)
			text, err := greet(t, l)
			if err == nil || text != "" {
				t.Fatalf("greeted with %q, %v", text, err)
			}
			if err := <-s.results; err == nil {
				t.Fatal("the host accepted the connection")
			}
			if state := l.State(); state.Up || state.Err == nil || !strings.Contains(state.Err.Error(), test.wantNode) {
				t.Errorf("node: %v, want %q", state.Err, test.wantNode)
			}
			if got := log.with("level=WARN"); len(got) != 1 || !strings.Contains(got[0], test.wantNode) {
				t.Errorf("log of the node: %q, want one line with %q", got, test.wantNode)
			}
			if got := s.log.with("connection refused"); len(got) != 1 || !strings.Contains(got[0], test.wantHost) || !strings.Contains(got[0], "peer=127.0.0.1") {
				t.Errorf("log of the host: %q, want one line with %q", got, test.wantHost)
			}
			const want = "# HELP tombolo_host_connections_refused_total Connections whose handshake failed: no certificate, one that is not valid, or no TLS 1.3. Peers that went away by themselves are excluded.\n" +
				"# TYPE tombolo_host_connections_refused_total counter\ntombolo_host_connections_refused_total 1\n"
			if err := testutil.GatherAndCompare(s.refused, strings.NewReader(want), "tombolo_host_connections_refused_total"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPeersWithoutTLS13AndACertificateGetNothing(t *testing.T) {
	a := newAuthority(t)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.ca.Pair().CertificatePEM)
	pair := a.node(valid())
	certificate, err := tls.X509KeyPair(pair.CertificatePEM, pair.KeyPEM)
	if err != nil {
		t.Fatal(err)
	}
	tlsPeer := func(config *tls.Config) func(t *testing.T, address string) error {
		return func(_ *testing.T, address string) error {
			config.RootCAs = roots
			conn, err := tls.Dial("tcp", address, config)
			if err != nil {
				return err
			}
			defer conn.Close()
			_, err = io.ReadAtLeast(conn, make([]byte, 1), 1)
			return err
		}
	}
	for name, test := range map[string]struct {
		peer func(t *testing.T, address string) error
		want string
	}{
		"no certificate": {tlsPeer(&tls.Config{NextProtos: []string{"h2"}}), "client didn't provide a certificate"},
		"TLS 1.2": {tlsPeer(&tls.Config{MaxVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2"}}),
			"unsupported versions"},
		"no application protocol": {tlsPeer(&tls.Config{Certificates: []tls.Certificate{certificate}}), "does not offer HTTP/2"},
		"HTTP/1 over TLS": {tlsPeer(&tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"http/1.1"}}),
			"does not offer HTTP/2"},
		"plain HTTP": {func(t *testing.T, address string) error {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
			if err != nil {
				t.Fatal(err)
			}
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			resp, err := transport.RoundTrip(req)
			if err == nil {
				_ = resp.Body.Close()
			}
			return err
		}, "plain HTTP"},
		"noise": {func(t *testing.T, address string) error {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, "SSH-2.0-OpenSSH_9.2\r\n"); err != nil {
				return err
			}
			_, err = io.ReadAtLeast(conn, make([]byte, 1), 1)
			return err
		}, "does not speak TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, a.files(a.host(valid())))
			if err := test.peer(t, s.address); err == nil {
				t.Error("the peer got an answer")
			}
			if err := <-s.results; err == nil {
				t.Fatal("accepted")
			}
			if got := s.log.with("connection refused"); len(got) != 1 || !strings.Contains(got[0], test.want) {
				t.Errorf("log: %q, want one line with %q", got, test.want)
			}
		})
	}
}

func TestPeerThatGoesAwayWithoutAWordIsNotCalledRefused(t *testing.T) {
	a := newAuthority(t)
	s := serve(t, a.files(a.host(valid())))
	conn, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if err := <-s.results; err == nil {
		t.Error("accepted")
	}
	if got := s.log.with("connection refused"); len(got) != 0 {
		t.Errorf("log: %q", got)
	}
}

func TestHostThatSpeaksPlainHTTPIsNamedOnTheNode(t *testing.T) {
	a := newAuthority(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	plain := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Second, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)}
	var wg sync.WaitGroup
	wg.Go(func() { _ = plain.Serve(listener) })
	t.Cleanup(func() { _ = plain.Close(); wg.Wait() })
	l := newLink(t, Target{Scheme: SchemeTLS, Address: listener.Addr().String()}, a.files(a.node(valid())), &lines{})
	if _, err := greet(t, l); !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), "does not look like a TLS handshake") {
		t.Errorf("got %v", err)
	}
}

func TestServerNameOverridesTheAddressInTheCertificate(t *testing.T) {
	a := newAuthority(t)
	pair, err := a.ca.IssueHost("edge-1", []string{"192.0.2.1"}, valid())
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, a.files(pair))
	files := a.files(a.node(valid()))
	if _, err := greet(t, newLink(t, s.target(), files, &lines{})); err == nil || !strings.Contains(err.Error(), "192.0.2.1") {
		t.Errorf("an address that the certificate does not have: %v", err)
	}
	certificates, err := LoadCertificates(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := New(Options{Target: s.target(), Certificates: certificates, ServerName: "edge-1", Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := greet(t, l); err != nil {
		t.Errorf("by the host's name: %v", err)
	}
}

func TestChangedCertificatesAreReadAgain(t *testing.T) {
	a, next := newAuthority(t), newAuthority(t)
	hostFiles, nodeFiles := a.files(a.host(valid())), a.files(a.node(valid()))
	s := serve(t, hostFiles)
	l := newLink(t, s.target(), nodeFiles, &lines{})
	if _, err := greet(t, l); err != nil {
		t.Fatal(err)
	}
	// Both sides move to another authority: first the host, which a node of the old one can no longer reach.
	pair := next.host(valid())
	write(t, hostFiles.CAFile, next.ca.Pair().CertificatePEM)
	write(t, hostFiles.CertFile, pair.CertificatePEM)
	write(t, hostFiles.KeyFile, pair.KeyPEM)
	if _, err := greet(t, l); err == nil {
		t.Error("the host still shows its old certificate")
	}
	pair = next.node(valid())
	write(t, nodeFiles.CAFile, next.ca.Pair().CertificatePEM)
	write(t, nodeFiles.CertFile, pair.CertificatePEM)
	write(t, nodeFiles.KeyFile, pair.KeyPEM)
	if _, err := greet(t, l); err != nil {
		t.Errorf("after both sides changed: %v", err)
	}
}

func TestUnusableCertificatesLeaveTheFormerOnesInUse(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	hostFiles := a.files(a.host(valid()))
	s := serve(t, hostFiles)
	l := newLink(t, s.target(), a.files(a.node(valid())), &lines{})
	write(t, hostFiles.KeyFile, other.host(valid()).KeyPEM) // the certificate is still to follow
	for range 3 {
		if _, err := greet(t, l); err != nil {
			t.Fatalf("with one file of a pair replaced: %v", err)
		}
	}
	if got := s.log.with("not usable"); len(got) != 1 {
		t.Errorf("log: %q, want one line", got)
	}
	if err := os.Remove(hostFiles.CertFile); err != nil {
		t.Fatal(err)
	}
	if _, err := greet(t, l); err != nil {
		t.Errorf("with a file missing: %v", err)
	}
}

func TestLoadCertificatesNamesTheBadFile(t *testing.T) {
	a := newAuthority(t)
	for name, spoil := range map[string]func(*Files) string{
		"missing authority":   func(f *Files) string { f.CAFile += "x"; return f.CAFile },
		"empty authority":     func(f *Files) string { write(t, f.CAFile, nil); return f.CAFile },
		"missing certificate": func(f *Files) string { f.CertFile += "x"; return f.CertFile },
		"other key":           func(f *Files) string { write(t, f.KeyFile, a.node(valid()).KeyPEM); return f.KeyFile },
	} {
		t.Run(name, func(t *testing.T) {
			files := a.files(a.node(valid()))
			path := spoil(&files)
			if _, err := LoadCertificates(files, nil); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want %s", err, path)
			}
		})
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
	for _, text := range []string{"", "/run/containerd.sock", "unix://run/x", "tls://host", "tls://:8470", "tls://2001:db8::1:1", "ssh://x", "http://x:1"} {
		if got, err := ParseTarget(text); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func FuzzParseTarget(f *testing.F) {
	for _, seed := range []string{"unix:///a", "tls://a:1", "tls://[::1]:1", "x://", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		target, err := ParseTarget(text)
		if err == nil && target.String() != text {
			t.Errorf("%q became %q", text, target)
		}
	})
}
