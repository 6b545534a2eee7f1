// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/link/pki"
	"github.com/tombolo-dev/tombolo/link/reverse"
)

// shore is the node's end of a reverse link to edge-1.
type shore struct {
	*Link
	log     *lines
	metrics *prometheus.Registry
}

func newShore(t *testing.T, files Files) *shore {
	t.Helper()
	s := &shore{log: &lines{}, metrics: prometheus.NewRegistry()}
	certificates, err := LoadCertificates(files, s.log.logger())
	if err != nil {
		t.Fatal(err)
	}
	s.Link, err = New(Options{
		Target: Target{Scheme: SchemeReverse, Address: "edge-1"}, Certificates: certificates, Listen: "127.0.0.1:0",
		Clock: clock.RealClock{}, Logger: s.log.logger(), Registerer: s.metrics,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func (s *shore) address() string { return s.reverse.Addr().String() }

// refusals are the counts of refused connections by reason, those that are not zero.
func (s *shore) refusals(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := s.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "tombolo_node_host_connections_refused_total" && m.GetCounter().GetValue() > 0 {
				out[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	return out
}

// boat is a host's end.
type boat struct {
	*Connector
	log     *lines
	metrics *prometheus.Registry
	conns   chan net.Conn
}

func newBoat(t *testing.T, address string, files Files, nodes ...string) *boat {
	t.Helper()
	b := &boat{log: &lines{}, metrics: prometheus.NewRegistry(), conns: make(chan net.Conn, 10)}
	certificates, err := LoadCertificates(files, b.log.logger())
	if err != nil {
		t.Fatal(err)
	}
	b.Connector, err = NewConnector(ConnectorOptions{Address: address, Certificates: certificates, Nodes: nodes, Logger: b.log.logger(), Registerer: b.metrics})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := b.Accept()
			if err != nil {
				return
			}
			b.conns <- conn
		}
	}()
	t.Cleanup(func() {
		_ = b.Close()
		<-done
		close(b.conns)
		for conn := range b.conns {
			_ = conn.Close()
		}
	})
	return b
}

func (b *boat) next(t *testing.T) net.Conn {
	t.Helper()
	select {
	case conn := <-b.conns:
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	case <-time.After(20 * time.Second):
		t.Fatalf("no connection:\n%s", strings.Join(b.log.with(""), ""))
		return nil
	}
}

func (l *lines) await(t *testing.T, text string) string {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if found := l.with(text); len(found) > 0 {
			return found[0]
		}
	}
	t.Fatalf("no line with %q in:\n%s", text, strings.Join(l.with(""), ""))
	return ""
}

func dialled(t *testing.T, l *Link) net.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	conn, err := l.Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// carries says whether bytes get both ways.
func carries(t *testing.T, node, host net.Conn) {
	t.Helper()
	for _, pair := range [][2]net.Conn{{node, host}, {host, node}} {
		got := make([]byte, 5)
		if _, err := io.WriteString(pair[0], "hello"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(pair[1], got); err != nil || string(got) != "hello" {
			t.Fatalf("%q, %v", got, err)
		}
	}
}

func TestHostConnectsAndBothEndsKnowWhoTheOtherIs(t *testing.T) {
	a := newAuthority(t)
	s := newShore(t, a.files(a.node(valid())))
	waiting := make(chan net.Conn, 1)
	go func() {
		conn, err := s.Dial(t.Context())
		if err != nil {
			t.Error(err)
		}
		waiting <- conn
	}()
	for s.State().Err == nil {
		time.Sleep(time.Millisecond)
	}
	if err := s.State().Err; !strings.Contains(err.Error(), "waiting for reverse://edge-1: the host has not connected to "+s.address()+" yet") {
		t.Errorf("before the host came: %v", err)
	}
	b := newBoat(t, s.address(), a.files(a.host(valid())))
	host, node := b.next(t), <-waiting
	carries(t, node, host)
	if state := s.State(); !state.Up || state.Err != nil {
		t.Errorf("the node's end: %+v", state)
	}
	if len(b.log.with("link is up")) != 1 || testutil.ToFloat64(b.Connector.metrics.attempts.WithLabelValues(attemptWelcome)) != 1 {
		t.Errorf("the host's end: %s", b.log.with(""))
	}
	if n, err := testutil.GatherAndCount(b.metrics, "tombolo_host_link_up", "tombolo_host_certificate_expiration_timestamp_seconds"); n != 2 || err != nil {
		t.Errorf("%d metrics, %v", n, err)
	}
	made := host.(*welcomed).Conn.(*conn).Conn.(*connected).Conn.(*tls.Conn).NetConn()
	taken := node.(*conn).Conn.(interface{ NetConn() net.Conn }).NetConn().(accepted).Conn
	for end, raw := range map[string]net.Conn{"host": made, "node": taken} {
		if got := userTimeout(t, raw); got != unacknowledgedTimeout {
			t.Errorf("the kernel of the %s waits %s for an acknowledgement", end, got)
		}
	}
}

func TestHostConnectsAgainWhenItsConnectionEnds(t *testing.T) {
	a := newAuthority(t)
	s := newShore(t, a.files(a.node(valid())))
	b := newBoat(t, s.address(), a.files(a.host(valid())))
	host, node := b.next(t), dialled(t, s.Link)
	carries(t, node, host)
	_ = node.Close()
	if _, err := host.Read(make([]byte, 1)); err == nil {
		t.Fatal("the host's end is still open")
	}
	select {
	case <-b.conns:
		t.Fatal("there are two connections at once")
	default:
	}
	_ = host.Close()
	if state := s.State(); state.Up {
		t.Errorf("after the end: %+v", state)
	}
	carries(t, dialled(t, s.Link), b.next(t))
}

func TestNewerConnectionTakesOverFromOneThatIsHalfDead(t *testing.T) {
	a := newAuthority(t)
	s := newShore(t, a.files(a.node(valid())))
	files := a.files(a.host(valid()))
	first := newBoat(t, s.address(), files)
	host, node := first.next(t), dialled(t, s.Link)
	carries(t, node, host)
	// The first one never hears of its end, as after a silent cut.
	second := newBoat(t, s.address(), files)
	later := second.next(t)
	if _, err := node.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "another connection, which takes over") {
		t.Errorf("the former connection: %v", err)
	}
	again := dialled(t, s.Link)
	carries(t, again, later)
	if got := testutil.CollectAndCount(s.metrics, "tombolo_node_host_takeovers_total"); got != 1 || len(s.refusals(t)) != 0 {
		t.Errorf("%d, refused %v", got, s.refusals(t))
	}
	// The end of the former one changes nothing.
	_ = node.Close()
	carries(t, again, later)
	if !s.State().Up {
		t.Error("down")
	}
}

func TestConnectionThatNobodyTookYetGivesWayToANewerOne(t *testing.T) {
	a := newAuthority(t)
	s := newShore(t, a.files(a.node(valid())))
	files := a.files(a.host(valid()))
	_ = newBoat(t, s.address(), files).next(t)
	s.log.await(t, "the host has connected")
	later := newBoat(t, s.address(), files).next(t)
	carries(t, dialled(t, s.Link), later)
}

func TestSecondHostOfOneNameIsRefusedAndBothEndsSayWhy(t *testing.T) {
	a := newAuthority(t)
	s := newShore(t, a.files(a.node(valid())))
	b := newBoat(t, s.address(), a.files(a.host(valid())))
	host, node := b.next(t), dialled(t, s.Link)
	carries(t, node, host)
	thief := newBoat(t, s.address(), a.files(a.host(valid())))
	thief.log.await(t, "the node refuses this host: another host has this name and is connected with another certificate")
	s.log.await(t, "connection refused")
	if got := s.refusals(t)["taken"]; got < 1 {
		t.Errorf("counted %v", s.refusals(t))
	}
	carries(t, node, host)
	if testutil.ToFloat64(thief.Connector.metrics.attempts.WithLabelValues(attemptFailed)) < 1 {
		t.Error("the attempt was not counted")
	}
}

func TestHostsThatAreNotTheNodesAreRefusedAndBothEndsSayWhatToDo(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	named := func(name string) *pki.Pair {
		pair, err := a.ca.IssueHost(name, nil, valid())
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	trusting := func(files Files, trusted authority) Files {
		write(t, files.CAFile, trusted.ca.Pair().CertificatePEM)
		files.Names = FileNames{CA: "--client-ca-file", Cert: "--tls-cert-file"}
		return files
	}
	node := a.files(a.node(valid()))
	node.Names = FileNames{CA: "--host-ca-file", Cert: "--host-cert-file"}
	for name, tc := range map[string]struct {
		host, node             Files
		reason, atNode, atHost string
	}{
		"another name": {
			trusting(a.files(named("edge-2")), a), node, "name",
			"the node is for reverse://edge-1 (--host), and the certificate of the host (--tls-cert-file) has the name edge-2", "has the name edge-2",
		},
		"another authority": {
			trusting(other.files(other.host(valid())), a), node, "handshake",
			"(a host must show one of the authority in --host-ca-file", "refused our certificate: remote error: tls: bad certificate (is --tls-cert-file",
		},
		"expired": {
			trusting(a.files(a.host(expired())), a), node, "handshake",
			"has expired", "refused our certificate: remote error: tls: bad certificate",
		},
		"a node's certificate": {
			trusting(a.files(a.node(valid())), a), node, "handshake",
			"incompatible key usage", "refused our certificate: remote error: tls: bad certificate",
		},
		"a node of another authority": {
			trusting(a.files(a.host(valid())), other), node, "handshake",
			"does its --client-ca-file have the authority of --host-cert-file?", "(a node must show one of the authority in --client-ca-file",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShore(t, tc.node)
			b := newBoat(t, s.address(), tc.host)
			if line := b.log.await(t, "link cannot be made"); !strings.Contains(line, tc.atHost) {
				t.Errorf("the host says %s", line)
			}
			if line := s.log.await(t, "connection refused"); !strings.Contains(line, tc.atNode) || !strings.Contains(line, "127.0.0.1:") {
				t.Errorf("the node says %s", line)
			}
			if got := s.refusals(t); got[tc.reason] < 1 || len(got) != 1 {
				t.Errorf("counted %v", got)
			}
			if state := s.State(); state.Up || tc.reason == "name" && !strings.Contains(fmt.Sprint(state.Err), tc.atNode) {
				t.Errorf("state %+v", state)
			}
			select {
			case <-b.conns:
				t.Error("the host has a connection")
			default:
			}
		})
	}
}

func TestNodeThatCannotBeVerifiedAsOneForCallingIsRefused(t *testing.T) {
	a := newAuthority(t)
	s := newShore(t, a.files(a.host(valid()))) // as if another host passed for the node
	b := newBoat(t, s.address(), a.files(a.host(valid())))
	if line := b.log.await(t, "link cannot be made"); !strings.Contains(line, "incompatible key usage") {
		t.Error(line)
	}
}

func TestPeersOfAnotherKindGetNothingFromANode(t *testing.T) {
	a := newAuthority(t)
	pair := a.host(valid())
	certificate, err := tls.X509KeyPair(pair.CertificatePEM, pair.KeyPEM)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		config *tls.Config // nil: no TLS
		want   string
	}{
		"no certificate":   {&tls.Config{NextProtos: []string{reverse.Protocol}}, "didn't provide a certificate"},
		"another protocol": {&tls.Config{NextProtos: []string{"h2"}, Certificates: []tls.Certificate{certificate}}, "unsupported application protocols"},
		"no protocol":      {&tls.Config{Certificates: []tls.Certificate{certificate}}, "does not name the protocol tombolo-link/1"},
		"an old version":   {&tls.Config{NextProtos: []string{reverse.Protocol}, Certificates: []tls.Certificate{certificate}, MaxVersion: tls.VersionTLS12}, "unsupported versions"},
		"a browser":        {nil, "plain HTTP"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShore(t, a.files(a.node(valid())))
			raw, err := net.Dial("tcp", s.address())
			if err != nil {
				t.Fatal(err)
			}
			defer raw.Close()
			answer := io.Reader(raw)
			if tc.config == nil {
				_, err = io.WriteString(raw, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			} else {
				tc.config.InsecureSkipVerify = true
				secured := tls.Client(raw, tc.config)
				answer, err = secured, secured.Handshake()
			}
			if err == nil {
				var got []byte
				if got, err = io.ReadAll(answer); len(got) > 0 && tc.config != nil {
					t.Errorf("it was answered %q", got)
				}
			}
			if line := s.log.await(t, "connection refused"); !strings.Contains(line, tc.want) {
				t.Errorf("%s, %v", line, err)
			}
			if got := s.refusals(t); got["handshake"] != 1 {
				t.Errorf("counted %v", got)
			}
			// Who shows no certificate does not come into the node's condition.
			if err := s.State().Err; name == "no certificate" && !strings.Contains(err.Error(), "has not connected") {
				t.Error(err)
			}
		})
	}
}

func TestNodeEndsAtOnceWithOneThatNeverFinishesItsHandshake(t *testing.T) {
	a := newAuthority(t)
	s := newShore(t, a.files(a.node(valid())))
	raw, err := net.Dial("tcp", s.address())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	s.Close()
	if _, err := s.Dial(t.Context()); !errdefs.IsUnavailable(err) || !errors.Is(err, net.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := net.Dial("tcp", s.address()); err == nil {
		t.Error("it still listens")
	}
}

func TestPortThatIsTakenIsNamed(t *testing.T) {
	a := newAuthority(t)
	s := newShore(t, a.files(a.node(valid())))
	certificates, err := LoadCertificates(a.files(a.node(valid())), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(Options{Target: Target{Scheme: SchemeReverse, Address: "edge-1"}, Certificates: certificates, Listen: s.address(), Clock: clock.RealClock{}})
	if err == nil || !strings.Contains(err.Error(), s.address()) || !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("got %v", err)
	}
}

func TestHostTriesAgainWithPausesThatGrowAndDiffer(t *testing.T) {
	var shortest, longest time.Duration
	differ := map[time.Duration]bool{}
	for range 50 {
		b := pauses()
		first := b.Step()
		for range 20 {
			last := b.Step()
			if longest < last {
				longest = last
			}
			if shortest == 0 || last < shortest {
				shortest = last
			}
		}
		differ[first] = true
		if first < 500*time.Millisecond || first > time.Second {
			t.Errorf("the first pause is %s", first)
		}
	}
	if longest > 11*time.Second || longest < 7*time.Second || shortest < 500*time.Millisecond || len(differ) < 10 {
		t.Errorf("from %s to %s, %d different first ones", shortest, longest, len(differ))
	}
}

func TestConnectorWaitsForANodeThatIsNotThereYet(t *testing.T) {
	a := newAuthority(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	b := newBoat(t, address, a.files(a.host(valid())))
	if line := b.log.await(t, "link cannot be made"); !strings.Contains(line, "dialing "+address) || !strings.Contains(line, "refused") {
		t.Error(line)
	}
}

func TestConnectorRefusesAddressesThatAreNone(t *testing.T) {
	for _, address := range []string{"", "node", "node:0", "node:x", ":8470", "https://node:1", "a@node:1"} {
		if _, err := NewConnector(ConnectorOptions{Address: address}); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), fmt.Sprintf("%q", address)) {
			t.Errorf("%q: %v", address, err)
		}
	}
}
