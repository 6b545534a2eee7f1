// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/errdefs"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParseProxy(t *testing.T) {
	for text, want := range map[string]string{
		"http://proxy.example.com:3128": "proxy.example.com:3128", "http://u:p@proxy": "proxy:80", "http://[::1]": "[::1]:80", "http://proxy/": "proxy:80",
	} {
		if u, err := ParseProxy(text); err != nil || u.Host != want {
			t.Errorf("%s: %v, %v", text, u, err)
		}
	}
	for text, want := range map[string]string{
		"": "scheme", "proxy:3128": "scheme", "https://u:secret@proxy": `scheme "https"`, "http://": "no host", "http://:3128": "no host",
		"http://u:secret@proxy:x": "not a URL", "http://u:secret@proxy/path": "after the port", "socks5://proxy:1": "scheme",
	} {
		if u, err := ParseProxy(text); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, %v, want %q", text, u, err, want)
		}
	}
}

// fakeProxy answers the first request on a connection.
func fakeProxy(t *testing.T, answer func(r *http.Request, conn net.Conn)) *url.URL {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		r, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			t.Error(err)
			return
		}
		answer(r, conn)
	})
	t.Cleanup(func() { _ = listener.Close(); wg.Wait() })
	return &url.URL{Scheme: "http", Host: listener.Addr().String(), User: url.UserPassword("u", "p")}
}

func dial(ctx context.Context, address string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", address)
}

func TestProxyIsAskedForATunnel(t *testing.T) {
	proxy := fakeProxy(t, func(r *http.Request, conn net.Conn) {
		if user, password, ok := parseBasic(r); r.Method != http.MethodConnect || r.RequestURI != "node.example.com:8470" || r.Host != "node.example.com:8470" || !ok || user != "u" || password != "p" {
			t.Errorf("%+v", r)
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n")
		_, _ = io.Copy(conn, conn)
	})
	conn, err := Through(proxy, dial)(t.Context(), "node.example.com:8470")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "echo"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "echo" {
		t.Errorf("%q, %v", got, err)
	}
}

func parseBasic(r *http.Request) (user, password string, ok bool) {
	r.Header.Set("Authorization", r.Header.Get("Proxy-Authorization"))
	return r.BasicAuth()
}

func TestProxyThatRefusesIsNamedWithARemedyButNotItsPassword(t *testing.T) {
	for answer, want := range map[string]string{
		"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n": `does not accept the user "u" with its password (407)`,
		"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n":                  `does not accept the user "u" with its password (401)`,
		"HTTP/1.1 403 Forbidden\r\nContent-Length: 5\r\n\r\n":                     `"403 Forbidden": does it allow CONNECT`,
		"SSH-2.0-OpenSSH_9.2\r\n":                                                 "does not answer as an HTTP proxy does",
		"HTTP/1.1 200 OK\r\n\r\nmore":                                             "more than an answer",
		"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxProxyAnswer):            "does not answer as an HTTP proxy does",
		"HTTP/1.1 403 " + strings.Repeat("x", maxProxyAnswer/2) + "\r\n\r\n":      "does it allow CONNECT",
		strings.Repeat("x", maxProxyAnswer/2) + "\r\n":                            "does not answer as an HTTP proxy does",
		"": "does not answer as an HTTP proxy does",
	} {
		proxy := fakeProxy(t, func(_ *http.Request, conn net.Conn) { _, _ = io.WriteString(conn, answer) })
		proxy.User = url.UserPassword("u", "secret")
		conn, err := Through(proxy, dial)(t.Context(), "node:1")
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), proxy.Host) || strings.Contains(err.Error(), "secret") || len(err.Error()) > 600 {
			t.Errorf("%.60q: %v, want %q", answer, err, want)
		}
		if conn != nil {
			t.Error("a connection comes with an error")
		}
	}
}

func TestProxyThatWantsAUserAsksForOne(t *testing.T) {
	proxy := fakeProxy(t, func(_ *http.Request, conn net.Conn) {
		_, _ = io.WriteString(conn, "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
	})
	proxy.User = nil
	if _, err := Through(proxy, dial)(t.Context(), "node:1"); err == nil || !strings.Contains(err.Error(), "wants to know who asks (407): give http://user:password@host:port") {
		t.Errorf("%v", err)
	}
}

func TestProxyThatDoesNotAnswerEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	proxy := fakeProxy(t, func(_ *http.Request, conn net.Conn) {
		cancel()
		_, _ = io.Copy(io.Discard, conn)
	})
	if _, err := Through(proxy, dial)(ctx, "node:1"); err == nil || ctx.Err() == nil {
		t.Errorf("%v, %v", err, ctx.Err())
	}
}
