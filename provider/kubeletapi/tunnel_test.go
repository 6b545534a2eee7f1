// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	spdyframe "github.com/moby/spdystream/spdy"
	"k8s.io/apimachinery/pkg/util/httpstream/spdy" //nolint:staticcheck // client-go's executor still wants its types
	"k8s.io/client-go/tools/remotecommand"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

// newRawBed is a bed whose streaming server does what serve does once it has agreed to the upgrade.
func newRawBed(t *testing.T, change func(*bed, *Options), serve func(net.Conn)) *bed {
	t.Helper()
	return newBed(t, func(b *bed, o *Options) {
		b.useRaw(t, httptest.NewServer, "http", serve)
		if change != nil {
			change(b, o)
		}
	})
}

func (b *bed) useRaw(t *testing.T, start func(http.Handler) *httptest.Server, scheme string, serve func(net.Conn)) {
	raw := start(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\n")
		serve(conn)
	}))
	t.Cleanup(raw.Close)
	b.runtime.exec = func(context.Context, *runtimeapi.ExecRequest) (string, error) {
		return fmt.Sprintf("%s://%s/exec/token", scheme, raw.Listener.Addr()), nil
	}
}

// upgrade opens a stream to the raw server and returns the connection and what comes over it.
func (b *bed) upgrade(t *testing.T) (*tls.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(b.url, "https://"), insecure())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, "POST /exec/ns/web/app?command=x&output=1 HTTP/1.1\r\nHost: node\r\n"+
		"Authorization: Bearer admin\r\nConnection: Upgrade\r\nUpgrade: raw\r\nContent-Length: 0\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	read := bufio.NewReader(conn)
	resp, err := http.ReadResponse(read, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("Upgrade") != "raw" {
		t.Fatalf("got %s %v", resp.Status, resp.Header)
	}
	return conn, read
}

// The runtime closes its end when a command is done. A slow client is still to receive the last output then, and goes on
// sending its pings. Neither may cut the output short.
func TestOutputIsCompleteForASlowClientThatKeepsTalking(t *testing.T) {
	const size = 12 << 20
	b := newRawBed(t, nil, func(conn net.Conn) {
		heard := make(chan struct{})
		go func() { _, _ = io.Copy(io.Discard, conn); close(heard) }()
		_, _ = io.Copy(conn, noise(size))
		_ = conn.(*net.TCPConn).CloseWrite()
		<-heard
	})
	conn, read := b.upgrade(t)
	talked := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(talked)
		for {
			if _, err := io.WriteString(conn, "ping"); err != nil {
				return
			}
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	time.Sleep(200 * time.Millisecond)
	got := checksum(slowly{read})
	close(stop)
	<-talked
	if want := checksum(noise(size)); got != want {
		t.Errorf("received %s, want %s", got, want)
	}
}

// The same with all the real parts of a SPDY stream, whose server ends as containerd's does: it closes its connection
// without reading what is under way to it.
func TestOutputIsCompleteForASlowClientThatPings(t *testing.T) {
	const size = 8 << 20
	b, _ := newStreamBed(t, nil)
	roundTripper, err := spdy.NewRoundTripperWithConfig(spdy.RoundTripperConfig{TLS: insecure(), PingPeriod: 2 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(fmt.Sprintf("%s/exec/ns/web/app?command=make&command=%d&output=1", b.url, size))
	if err != nil {
		t.Fatal(err)
	}
	executor, err := remotecommand.NewSPDYExecutorForTransports(withToken{"admin", roundTripper}, roundTripper, http.MethodPost, u)
	if err != nil {
		t.Fatal(err)
	}
	want := checksum(noise(size))
	for range 3 {
		read, write := io.Pipe()
		got := make(chan string, 1)
		go func() { got <- checksum(slowly{read}) }()
		err := executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: write})
		_ = write.Close()
		if sum := <-got; err != nil || sum != want {
			t.Errorf("received %s, %v; want %s", sum, err, want)
		}
	}
}

func TestPingsReachASilentBackend(t *testing.T) {
	clk := clocktesting.NewFakeClock(now)
	near, client := net.Pipe()
	far, server := net.Pipe()
	p := &pipe{client: near, fromClient: near, backend: far, fromBackend: far, clock: clk, idle: time.Hour, spdy: true}
	done := make(chan error, 1)
	go func() { done <- p.run(t.Context()) }()
	ping := frames(t, &spdyframe.PingFrame{Id: 1})
	word := frames(t, &spdyframe.DataFrame{StreamId: 1, Data: []byte("word")})
	if _, err := client.Write(append(slices.Clone(ping), word...)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(word)+len(ping))
	if _, err := io.ReadFull(server, got[:len(word)]); err != nil {
		t.Fatal(err)
	}
	// Two wait for the clock: for an idle stream, and for silence.
	for clk.Waiters() < 2 {
		time.Sleep(time.Millisecond)
	}
	clk.Step(pingQuiet)
	if _, err := io.ReadFull(server, got[len(word):]); err != nil {
		t.Fatal(err)
	}
	if want := append(slices.Clone(word), ping...); !bytes.Equal(got, want) {
		t.Errorf("the backend received %q, want %q", got, want)
	}
	_ = client.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	_ = server.Close()
}

type slowly struct{ io.Reader }

func (s slowly) Read(p []byte) (int, error) {
	time.Sleep(time.Millisecond)
	return s.Reader.Read(p)
}

func TestAStreamingServerWithTLSIsReached(t *testing.T) {
	b := newBed(t, func(b *bed, _ *Options) {
		b.useRaw(t, httptest.NewTLSServer, "https", func(conn net.Conn) { _, _ = io.WriteString(conn, "hello") })
	})
	_, read := b.upgrade(t)
	if got, err := io.ReadAll(read); string(got) != "hello" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestAnIdleStreamIsEnded(t *testing.T) {
	clk := clocktesting.NewFakeClock(now)
	b := newRawBed(t, func(_ *bed, o *Options) { o.Clock, o.StreamIdleTimeout = clk, time.Hour }, func(conn net.Conn) { _, _ = io.Copy(conn, conn) })
	conn, read := b.upgrade(t)
	// A byte each half hour keeps the stream alive, though far more than an hour goes by.
	for range 10 {
		waitForTimer(t, clk)
		clk.Step(30 * time.Minute)
		if _, err := io.WriteString(conn, "x"); err != nil {
			t.Fatal(err)
		}
		if got, err := read.ReadByte(); got != 'x' || err != nil {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	ended := make(chan error, 1)
	go func() {
		_, err := read.ReadByte()
		ended <- err
	}()
	for range 5000 {
		clk.Step(time.Hour)
		select {
		case err := <-ended:
			if err == nil {
				t.Error("there was a byte that nobody sent")
			}
			return
		case <-time.After(time.Millisecond):
		}
	}
	t.Error("the stream goes on without a byte")
}

// waitForTimer waits until somebody waits for the clock.
func waitForTimer(t *testing.T, clk *clocktesting.FakeClock) {
	t.Helper()
	for range 5000 {
		if clk.HasWaiters() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("nobody waits for the clock")
}

func TestAClientThatDoesNotCloseIsNotWaitedForForEver(t *testing.T) {
	clk := clocktesting.NewFakeClock(now)
	b := newRawBed(t, func(_ *bed, o *Options) { o.Clock = clk }, func(net.Conn) {})
	conn, read := b.upgrade(t)
	if _, err := read.ReadByte(); !errors.Is(err, io.EOF) {
		t.Fatalf("the end of the output was not passed on: %v", err)
	}
	// The server has closed its end when writing fails.
	for range 5000 {
		clk.Step(lingerTimeout)
		if _, err := io.WriteString(conn, "ping"); err != nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Error("the connection is still open")
}
