// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/link/join"
	"github.com/tombolo-dev/tombolo/link/pki"
	"github.com/tombolo-dev/tombolo/link/reverse"
)

// haven is a node that hosts join.
type haven struct {
	*shore
	dir    string
	ledger *join.Ledger
}

func newHaven(t *testing.T, validity time.Duration) *haven {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "join")
	ledger, err := join.MakeLedger(dir, "edge-1", clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	h := &haven{shore: &shore{log: &lines{}, metrics: prometheus.NewRegistry()}, dir: dir, ledger: ledger}
	var files Files
	files.CAFile, files.CertFile, files.KeyFile = join.NodeFiles(dir, "edge-1")
	certificates, err := LoadCertificates(files, h.log.logger())
	if err != nil {
		t.Fatal(err)
	}
	h.Link, err = New(Options{
		Target: Target{Scheme: SchemeReverse, Address: "edge-1"}, Certificates: certificates, Listen: "127.0.0.1:0",
		Desk:  join.NewDesk(join.DeskOptions{Ledger: ledger, Validity: validity, Logger: h.log.logger(), Registerer: h.metrics}),
		Clock: clock.RealClock{}, Logger: h.log.logger(), Registerer: h.metrics,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

func (h *haven) token(t *testing.T) join.Token {
	t.Helper()
	token, err := h.ledger.CreateToken(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// asked is how many hosts asked with a result.
func (h *haven) asked(t *testing.T, result string) float64 {
	t.Helper()
	families, err := h.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "tombolo_node_joins_total" && m.GetLabel()[0].GetValue() == result {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no count of %s", result)
	return 0
}

func joinAt(t *testing.T, address string, token join.Token) (Files, join.Files) {
	t.Helper()
	kept := join.Files{Dir: t.TempDir(), Clock: clock.RealClock{}}
	key, err := kept.WishKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id, err := Join(t.Context(), address, nil, token, join.Wish{Name: "edge-1", Key: key})
	if err != nil {
		t.Fatal(err)
	}
	if err := kept.Write(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	return Files{CAFile: kept.Authority(), CertFile: kept.Pair(), KeyFile: kept.Pair()}, kept
}

// wish is for a key of its own.
func wish(t *testing.T, name string) join.Wish {
	t.Helper()
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return join.Wish{Name: name, Key: key}
}

func TestHostJoinsConnectsRenewsWithoutALossAndIsRevoked(t *testing.T) {
	h := newHaven(t, time.Hour)
	files, kept := joinAt(t, h.address(), h.token(t))
	b := newBoat(t, h.address(), files)
	host, node := b.next(t), dialled(t, h.Link)
	carries(t, node, host)

	before, err := kept.Leaf()
	if err != nil {
		t.Fatal(err)
	}
	id, err := b.o.Certificates.Renew(t.Context(), h.address(), nil, "edge-1")
	if err != nil {
		t.Fatal(err)
	}
	if err := kept.Renew(t.Context(), id, before); err != nil {
		t.Fatal(err)
	}
	if after, err := kept.Leaf(); err != nil || after.SerialNumber.Cmp(before.SerialNumber) == 0 || bytes.Equal(after.RawSubjectPublicKeyInfo, before.RawSubjectPublicKeyInfo) {
		t.Errorf("another certificate with a key of its own: %v, %v", after, err)
	}
	carries(t, node, host)
	if h.asked(t, "joined") != 1 || h.asked(t, "renewed") != 1 {
		t.Error("not counted")
	}

	if _, _, err := h.ledger.Revoke(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = node.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := node.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "not good any more") {
		t.Errorf("the connection after the revocation: %v", err)
	}
	_ = host.Close()
	b.log.await(t, "the node refuses this host: certificate ")
	if got := h.refusals(t)["revoked"]; got < 2 {
		t.Errorf("counted %v", h.refusals(t))
	}
	if _, err := b.o.Certificates.Renew(t.Context(), h.address(), nil, "edge-1"); err == nil || !strings.Contains(err.Error(), "the node refuses: certificate ") || h.asked(t, "refused_certificate") != 1 {
		t.Errorf("renewing after the revocation: %v", err)
	}
	// The same machine may join anew.
	again, _ := joinAt(t, h.address(), h.token(t))
	next := newBoat(t, h.address(), again)
	carries(t, dialled(t, h.Link), next.next(t))
}

func TestJoiningIsRefusedAndBothEndsSayWhy(t *testing.T) {
	h, other := newHaven(t, time.Hour), newHaven(t, time.Hour)
	used := h.token(t)
	joinAt(t, h.address(), used)
	deleted := h.token(t)
	if err := h.ledger.DeleteToken(t.Context(), deleted.ID); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		token        join.Token
		host         string
		result, want string
	}{
		"replayed":     {used, "", "refused_token", "the token was used already"},
		"deleted":      {deleted, "", "refused_token", "the token is not known here"},
		"another name": {h.token(t), "edge-2", "refused_name", `the host asks for another name: it is for "edge-2", and this node is for "edge-1"`},
	} {
		before := h.asked(t, tc.result)
		if _, err := Join(t.Context(), h.address(), nil, tc.token, wish(t, tc.host)); err == nil || !strings.Contains(err.Error(), "the node refuses: "+tc.want) {
			t.Errorf("%s: %v", name, err)
		}
		if h.asked(t, tc.result) != before+1 || len(h.log.with(tc.want[:20])) == 0 {
			t.Errorf("%s: not counted or not logged: %s", name, h.log.with(""))
		}
	}
	// A token of one node leads to no other one, and its secret does not get there.
	if _, err := Join(t.Context(), h.address(), nil, other.token(t), wish(t, "")); err == nil || !strings.Contains(err.Error(), "is not the node that made the token, nothing was sent to it") {
		t.Errorf("another node: %v", err)
	}
	a := newAuthority(t)
	plain := newShore(t, a.files(a.node(valid())))
	if _, err := Join(t.Context(), plain.address(), nil, other.token(t), wish(t, "")); err == nil || !strings.Contains(err.Error(), "no application protocol") {
		t.Errorf("a node without a desk: %v", err)
	}
}

func TestStrangerWithTheAuthoritysCertificateOfAHostDoesNotPassForTheNode(t *testing.T) {
	h := newHaven(t, time.Hour)
	token := h.token(t)
	files, _ := joinAt(t, h.address(), h.token(t))
	pair, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	ca, _, _ := join.NodeFiles(h.dir, "edge-1")
	caPair, err := readFile("", "", ca)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(caPair)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{join.Protocol}})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	got := make(chan int, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			got <- 0
			return
		}
		defer conn.Close()
		n, _ := io.Copy(io.Discard, conn)
		got <- int(n)
	}()
	if _, err := Join(t.Context(), listener.Addr().String(), nil, token, wish(t, "")); err == nil || !strings.Contains(err.Error(), "nothing was sent to it") {
		t.Errorf("got %v", err)
	}
	if n := <-got; n != 0 {
		t.Errorf("it got %d bytes", n)
	}
}

func TestHostThatSaysNothingWhileJoiningIsLetGo(t *testing.T) {
	h := newHaven(t, time.Hour)
	raw, err := net.Dial("tcp", h.address())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{join.Protocol}})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		t.Fatal(err)
	}
	h.Close() // joins what is under way
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("it was answered")
	}
}

func TestCertificateForJoiningDoesNotLetAnybodyIn(t *testing.T) {
	h := newHaven(t, time.Hour)
	raw, err := net.Dial("tcp", h.address())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	// Both protocols, to get in by the one that needs no certificate.
	conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{reverse.Protocol, join.Protocol}})
	if err := conn.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := conn.ConnectionState().NegotiatedProtocol; got != join.Protocol {
		t.Errorf("it may speak %s", got)
	}
}
