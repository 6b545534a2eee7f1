// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/host/remote"
	"github.com/tombolo-dev/tombolo/link/sshlink"
)

// stdioHost is a host process on pipes.
type stdioHost struct {
	toHost   *os.File
	fromHost *os.File
	log      *output
	code     chan int
}

func (m *machine) startStdio(t *testing.T, more ...string) *stdioHost {
	t.Helper()
	stdin, toHost, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromHost, stdout, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	h := &stdioHost{toHost: toHost, fromHost: fromHost, log: &output{}, code: make(chan int, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	args := append([]string{
		"host", "--stdio", "--containerd", m.socket, "--root", filepath.Join(m.dir, "root"), "--pod-logs-dir", filepath.Join(m.dir, "logs"),
	}, more...)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.code <- run(ctx, args, func(string) (string, bool) { return "", false }, stdin, stdout, h.log)
		_ = stdin.Close()
		_ = stdout.Close()
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		_ = toHost.Close()
		_ = fromHost.Close()
	})
	return h
}

// pipes are the node's end.
type pipes struct {
	io.Reader
	h *stdioHost
}

func (p *pipes) Read(b []byte) (int, error)        { return p.Reader.Read(b) }
func (p *pipes) Write(b []byte) (int, error)       { return p.h.toHost.Write(b) }
func (p *pipes) Close() error                      { return errors.Join(p.h.toHost.Close(), p.h.fromHost.Close()) }
func (p *pipes) LocalAddr() net.Addr               { return stdioAddr{} }
func (p *pipes) RemoteAddr() net.Addr              { return stdioAddr{} }
func (p *pipes) SetDeadline(time.Time) error       { return nil }
func (p *pipes) SetReadDeadline(t time.Time) error { return p.h.fromHost.SetReadDeadline(t) }
func (p *pipes) SetWriteDeadline(time.Time) error  { return nil }

// connect reads the greeting and returns the host, and what closes the connection.
func (h *stdioHost) connect(t *testing.T) (host.Host, func()) {
	t.Helper()
	reader := bufio.NewReader(h.fromHost)
	greeting := make([]byte, len(sshlink.Greeting(buildVersion())))
	if _, err := io.ReadFull(reader, greeting); err != nil || string(greeting) != sshlink.Greeting(buildVersion()) {
		t.Fatalf("greeted with %q, %v; log:\n%s", greeting, err, h.log)
	}
	once := make(chan net.Conn, 1)
	once <- &pipes{Reader: reader, h: h}
	conn, err := remote.NewConn(remote.ConnOptions{Name: "host", Local: true, Dial: func(ctx context.Context) (net.Conn, error) {
		select {
		case c := <-once:
			return c, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return remote.NewClient(conn, remote.ClientOptions{}), func() { _ = conn.Close() }
}

func TestHostServesOneNodeOnStdioAndEndsWithIt(t *testing.T) {
	m := newMachine(t)
	h := m.startStdio(t)
	machine, hangUp := h.connect(t)
	if facts, err := machine.Facts(t.Context()); err != nil || facts.Version != buildVersion() {
		t.Errorf("facts: %+v, %v", facts, err)
	}
	hangUp()
	if code := <-h.code; code != exitSuccess || !strings.Contains(h.log.String(), "pods were left alone") {
		t.Errorf("exit code %d, log:\n%s", code, h.log)
	}
	// Nothing holds the root directory any more.
	_, hangUp = m.startStdio(t).connect(t)
	hangUp()
}

func TestHostOnStdioEndsWhenItsNodeNeverSpeaks(t *testing.T) {
	m := newMachine(t)
	h := m.startStdio(t)
	_ = h.toHost.Close()
	if code := <-h.code; code != exitSuccess {
		t.Errorf("exit code %d, log:\n%s", code, h.log)
	}
}

func TestHostOnStdioWaitsForTheOneBeforeIt(t *testing.T) {
	m := newMachine(t)
	first := m.startStdio(t)
	_, hangUp := first.connect(t)
	second := m.startStdio(t)
	second.log.await(t, "waiting for the end of a process before this one.*(pid )")
	hangUp()
	machine, hangUp := second.connect(t)
	defer hangUp()
	if _, err := machine.Facts(t.Context()); err != nil {
		t.Error(err)
	}
	if code := <-first.code; code != exitSuccess {
		t.Errorf("exit code %d", code)
	}
}

func TestHostFlagsForTheNetworkAreNoUseOnStdio(t *testing.T) {
	code, _, errs := execute("host", "--stdio", "--root", "relative", "--listen", ":1", "--metrics-address", ":2", "--tls-cert-file", "c", "--tls-private-key-file", "k", "--client-ca-file", "a")
	if code != exitUsage {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{`--root "relative"`, "--listen is for", "--metrics-address is for", "--tls-cert-file is for", "--tls-private-key-file is for", "--client-ca-file is for"} {
		if !strings.Contains(errs, want) {
			t.Errorf("%q is not named in:\n%s", want, errs)
		}
	}
}
