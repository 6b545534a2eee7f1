// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tombolo-dev/tombolo/link/pki"
)

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
			const want = "# HELP tombolo_host_connections_refused_total Connections whose handshake failed: no certificate, one that is not valid or of another node, or no TLS 1.3. Peers that went away by themselves are excluded.\n" +
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

func TestRefusalIsNamedAlthoughAWriteFindsOutFirst(t *testing.T) {
	a := newAuthority(t)
	s := serve(t, a.files(a.host(valid())))
	l := newLink(t, s.target(), a.files(a.node(expired())), &lines{})
	conn, err := l.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := <-s.results; err == nil {
		t.Fatal("the host accepted the connection")
	}
	deadline := time.Now().Add(10 * time.Second)
	for err == nil && time.Now().Before(deadline) { // until the host's kernel has answered that nobody is there
		_, err = conn.Write([]byte("hello"))
	}
	if state := l.State(); err == nil || state.Err == nil || !strings.Contains(state.Err.Error(), "refused our certificate") {
		t.Errorf("%v after a write failed with %v", state.Err, err)
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
