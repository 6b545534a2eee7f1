// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

// crowd opens connections to an address that do nothing until the end of the test.
func crowd(t *testing.T, address string, n int) {
	t.Helper()
	for range n {
		raw, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = raw.Close() })
	}
}

func TestHostGetsThroughACrowdThatOnlyTakesUpRoom(t *testing.T) {
	a := newAuthority(t)
	s := newShore(t, a.files(a.node(valid())))
	crowd(t, s.address(), 200)
	b := newBoat(t, s.address(), a.files(a.host(valid())))
	carries(t, dialled(t, s.Link), b.next(t))
	if n := len(b.log.with("link cannot be made")); n > 0 {
		t.Errorf("it was kept out: %s", b.log.with(""))
	}
	if got := s.refusals(t)["busy"]; got < 100 {
		t.Errorf("counted %v", s.refusals(t))
	}
}

func TestNodeGetsThroughACrowdThatOnlyTakesUpRoom(t *testing.T) {
	a := newAuthority(t)
	s := serve(t, a.files(a.host(valid())))
	const strangers = 3 * maxHandshakes
	crowd(t, s.address, strangers)
	for range strangers - maxHandshakes {
		if err := <-s.results; err == nil {
			t.Fatal("a stranger was accepted")
		}
	}
	if text, err := greet(t, newLink(t, s.target(), a.files(a.node(valid())), &lines{})); err != nil || text != "hello" {
		t.Errorf("%q, %v", text, err)
	}
	if got := s.log.await(t, "connection refused"); !strings.Contains(got, "it took up room that others needed") {
		t.Error(got)
	}
}

func TestStrangersDoNotFillTheLog(t *testing.T) {
	a := newAuthority(t)
	s := newShore(t, a.files(a.node(valid())))
	served := serve(t, a.files(a.host(valid())))
	const strangers = 100
	for range strangers {
		for _, address := range []string{s.address(), served.address} {
			raw, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(raw, "GET / HTTP/1.1\r\n\r\n")
			_, _ = io.Copy(io.Discard, raw)
			_ = raw.Close()
			if address == served.address {
				<-served.results
			}
		}
	}
	s.Close() // joins what is under way
	if got := s.refusals(t)["handshake"]; got != strangers {
		t.Errorf("counted %v", got)
	}
	for what, log := range map[string]*lines{"node": s.log, "host": served.log} {
		if n := len(log.with("connection refused")); n == 0 || n > strangers/2 {
			t.Errorf("the log of the %s has %d lines", what, n)
		}
	}
}

func TestWhatStrangersSayIsShortAndPrintable(t *testing.T) {
	err := fmt.Errorf("client requested unsupported application protocols ([%q\x1b[2J\n%s])", "h3", strings.Repeat("x", 60_000))
	if got := refusal(err); len(got) > 400 || strings.ContainsAny(got, "\n\x1b") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

// resets says nothing and then resets its connection, as some load balancers do to see whether somebody listens.
func resets(t *testing.T, address string) {
	t.Helper()
	raw, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	_ = raw.Close()
}

func TestPeerThatResetsWithoutAWordIsNotCalledRefused(t *testing.T) {
	a := newAuthority(t)
	served := serve(t, a.files(a.host(valid())))
	resets(t, served.address)
	<-served.results
	s := newShore(t, a.files(a.node(valid())))
	resets(t, s.address())
	b := newBoat(t, s.address(), a.files(a.host(valid()))) // comes after it
	carries(t, dialled(t, s.Link), b.next(t))
	s.Close() // joins what is under way
	for what, log := range map[string]*lines{"node": s.log, "host": served.log} {
		if got := log.with("connection refused"); len(got) > 0 {
			t.Errorf("log of the %s: %q", what, got)
		}
	}
}
