// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/credentials"
)

func TestHostServesOnlyNodesThatItIsMeantFor(t *testing.T) {
	a := newAuthority(t)
	node := a.files(a.node(valid()))
	for name, nodes := range map[string][]string{"no names": nil, "its name": {"node-1"}, "one of the names": {"other", "node-1"}} {
		s := serve(t, a.files(a.host(valid())), nodes...)
		if text, err := greet(t, newLink(t, s.target(), node, &lines{})); err != nil || text != "hello" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	s := serve(t, a.files(a.host(valid())), "node-2", "node-3")
	log := &lines{}
	if text, err := greet(t, newLink(t, s.target(), node, log)); err == nil {
		t.Errorf("another node was greeted with %q", text)
	}
	if err := <-s.results; err == nil {
		t.Error("accepted")
	}
	got := s.log.with("connection refused")
	for _, want := range []string{`the node \"node-1\"`, "only node-2, node-3 may lead this host", "--node-name", "tombolo pki node --name node-2", "peer=127.0.0.1"} {
		if len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("log of the host: %q, want one line with %q", got, want)
		}
	}
	if n := testutil.CollectAndCount(s.refused, "tombolo_host_connections_refused_total"); n != 1 {
		t.Errorf("counted in %d series", n)
	}
	if got := log.with("refused our certificate"); len(got) != 1 {
		t.Errorf("log of the node: %q", got)
	}
}

func TestHostThatConnectsServesOnlyNodesThatItIsMeantFor(t *testing.T) {
	a := newAuthority(t)
	s := newShore(t, a.files(a.node(valid())))
	b := newBoat(t, s.address(), a.files(a.host(valid())), "node-2")
	for _, want := range []string{`the node \"node-1\"`, "only node-2 may lead this host", "--node-name", "tombolo pki node --name node-2"} {
		if line := b.log.await(t, "link cannot be made"); !strings.Contains(line, want) {
			t.Errorf("log of the host: %q, want %q", line, want)
		}
	}
	if line := s.log.await(t, "connection refused"); !strings.Contains(line, "--node-name") {
		t.Errorf("log of the node: %q", line)
	}
	_ = b.Close()
	right := newBoat(t, s.address(), a.files(a.host(valid())), "node-1")
	carries(t, dialled(t, s.Link), right.next(t))
	if n := testutil.ToFloat64(b.Connector.metrics.attempts.WithLabelValues(attemptFailed)); n < 1 {
		t.Errorf("%v attempts were counted", n)
	}
}

func TestServerOfAHostThatConnectsIsToldWhoIsAtTheOtherEnd(t *testing.T) {
	a := newAuthority(t)
	s := newShore(t, a.files(a.node(valid())))
	b := newBoat(t, s.address(), a.files(a.host(valid())))
	accepted := b.next(t)
	conn, info, err := b.Credentials().Clone().ServerHandshake(accepted)
	if err != nil {
		t.Fatal(err)
	}
	carries(t, dialled(t, s.Link), conn)
	if got := subject(info); got != "node-1" {
		t.Errorf("it is %q", got)
	}
	if err := credentials.CheckSecurityLevel(info, credentials.PrivacyAndIntegrity); err != nil {
		t.Error(err)
	}
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	if _, _, err := b.Credentials().ServerHandshake(here); err == nil {
		t.Error("a connection of somebody else is believed")
	}
}

func TestRefusalOfANameIsShortWhateverTheNamesAre(t *testing.T) {
	long := strings.Repeat("x\n", 50_000)
	state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Subject: pkix.Name{CommonName: long}}}}
	err := Nodes{strings.Repeat("a", 50_000), "b"}.check(state)
	if err == nil {
		t.Fatal("accepted")
	}
	if got := refusal(err); len(got) > 1500 || strings.ContainsAny(got, "\n") || !strings.Contains(got, "another --node-name") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}
