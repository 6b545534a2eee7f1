// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/prometheus/client_golang/prometheus/testutil"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/tombolo-dev/tombolo/link/pki"
)

// review is a connection of a host whose certificate is looked at time and again.
type review struct {
	acceptor *Acceptor
	clock    *clocktesting.FakeClock
	node     net.Conn
	log      *strings.Builder
}

func newReview(t *testing.T, check func(*x509.Certificate) (string, error)) *review {
	t.Helper()
	life := pki.Lifetime{From: time.Now(), Validity: time.Hour}
	authority, err := pki.NewAuthority("test", pki.Lifetime{From: time.Now(), Validity: 2 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	pair := func(p *pki.Pair, err error) tls.Certificate {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		c, err := tls.X509KeyPair(p.CertificatePEM, p.KeyPEM)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &review{clock: clocktesting.NewFakeClock(time.Now()), log: &strings.Builder{}}
	r.acceptor = Listen(Options{
		Listener: listener, Name: "edge-1", Check: check, Clock: r.clock, Logger: slog.New(slog.NewTextHandler(r.log, nil)),
		TLS: &tls.Config{
			MinVersion: tls.VersionTLS13, NextProtos: []string{Protocol}, ClientAuth: tls.RequireAnyClientCert,
			Certificates: []tls.Certificate{pair(authority.IssueNode("edge-1", life))},
		},
	})
	t.Cleanup(r.acceptor.Close)
	host, err := tls.Dial("tcp", listener.Addr().String(), &tls.Config{
		InsecureSkipVerify: true, NextProtos: []string{Protocol}, Certificates: []tls.Certificate{pair(authority.IssueHost("edge-1", nil, life))},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = host.Close() })
	if err := ReadGreeting(host); err != nil {
		t.Fatal(err)
	}
	if r.node, err = r.acceptor.Dial(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.node.Close() })
	return r
}

// after lets time pass and returns why the connection ended.
func (r *review) after(t *testing.T, pass time.Duration) error {
	t.Helper()
	for !r.clock.HasWaiters() {
		time.Sleep(time.Millisecond)
	}
	r.clock.Step(pass)
	_, err := r.node.Read(make([]byte, 1))
	return err
}

func TestConnectionEndsWithItsCertificateWhichIsNotCalledRevoked(t *testing.T) {
	asked := 0
	r := newReview(t, func(*x509.Certificate) (string, error) {
		if asked++; asked > 1 {
			return "", fmt.Errorf("gone: %w", errdefs.ErrPermissionDenied)
		}
		return "a", nil
	})
	if err := r.after(t, 2*time.Hour); !errors.Is(err, errExpired) {
		t.Errorf("it ended with %v", err)
	}
	r.acceptor.Close()
	if n := testutil.ToFloat64(r.acceptor.metrics.refused.WithLabelValues(refusedRevoked)); n != 0 || !strings.Contains(r.log.String(), "has expired, it connects again") {
		t.Errorf("counted %v: %s", n, r.log)
	}
}

func TestConnectionOfARevokedHostEnds(t *testing.T) {
	asked := 0
	r := newReview(t, func(*x509.Certificate) (string, error) {
		if asked++; asked > 1 {
			return "", fmt.Errorf("gone: %w", errdefs.ErrPermissionDenied)
		}
		return "a", nil
	})
	if err := r.after(t, reviewPeriod); !errors.Is(err, errRevoked) {
		t.Errorf("it ended with %v", err)
	}
	r.acceptor.Close()
	if n := testutil.ToFloat64(r.acceptor.metrics.refused.WithLabelValues(refusedRevoked)); n != 1 {
		t.Errorf("counted %v", n)
	}
}
