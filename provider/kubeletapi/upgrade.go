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
	"net/url"
	"strings"

	"github.com/containerd/errdefs"
	"k8s.io/streaming/pkg/httpstream"
)

// maxRefusalBytes is how much of the streaming server's reason for not upgrading is passed on.
const maxRefusalBytes = 64 << 10

func errNoUpgrade(r *http.Request) error {
	if httpstream.IsUpgradeRequest(r) {
		return nil
	}
	return statusErrorf(http.StatusBadRequest, "Upgrade request required")
}

// backend is a connection to the runtime's streaming server over which an upgrade was requested.
type backend struct {
	conn net.Conn
	// from yields what the server sent after its answer.
	from   io.Reader
	answer *http.Response
}

// connect dials the streaming server through the host, passes the client's upgrade request on and reads the answer. When
// ctx ends, also later, the connection is closed.
func (s *Server) connect(ctx context.Context, r *http.Request, location *url.URL) (*backend, error) {
	conn, err := s.dial(ctx, location)
	if err != nil {
		return nil, fmt.Errorf("reaching the runtime's streaming server: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	out := upgradeRequest(ctx, r, location)
	buffered := bufio.NewReader(conn)
	err = out.Write(conn)
	var answer *http.Response
	if err == nil {
		answer, err = http.ReadResponse(buffered, out) //nolint:bodyclose // it is a part of conn, which is closed
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("%w: upgrading the connection to the runtime's streaming server: %w", errdefs.ErrUnavailable, err)
	}
	return &backend{conn: conn, from: unread(buffered, conn), answer: answer}, nil
}

func (s *Server) dial(ctx context.Context, location *url.URL) (net.Conn, error) {
	conn, err := s.o.Streams.DialStreaming(ctx, location.Host)
	if err != nil || location.Scheme == "http" {
		return conn, err
	}
	secure := tls.Client(conn, &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
		// The runtime signs this certificate itself, so that nobody could check it. What vouches for the other end is the
		// link, which was authenticated both ways, and the host, which dials nothing but its own streaming server.
		InsecureSkipVerify: true, //nolint:gosec // see above
	})
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}

// parseLocation checks a URL that came from the runtime.
func parseLocation(location string) (*url.URL, error) {
	u, err := url.Parse(location)
	if err != nil {
		return nil, fmt.Errorf("the runtime gave a streaming URL that cannot be read: %w", errors.Unwrap(err))
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Port() == "" {
		return nil, fmt.Errorf("the runtime gave the streaming URL %q; it must be http(s)://host:port/path", u.Redacted())
	}
	return u, nil
}

// upgradeRequest is the client's request as it is sent to the streaming server. Only what the upgrade needs is taken
// over: the client's credentials are none of the host's business.
func upgradeRequest(ctx context.Context, r *http.Request, location *url.URL) *http.Request {
	out := (&http.Request{
		Method: r.Method, URL: location, Host: location.Host, Header: http.Header{},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	for name, values := range r.Header {
		switch {
		case name == "Connection", name == "Upgrade", name == "Origin", name == "User-Agent",
			name == httpstream.HeaderProtocolVersion, strings.HasPrefix(name, "Sec-Websocket-"):
			out.Header[name] = values
		}
	}
	return out
}

// refuse passes on the answer of a streaming server that did not upgrade.
func (b *backend) refuse(w http.ResponseWriter) error {
	defer func() { _ = b.conn.Close() }()
	if b.answer.StatusCode < http.StatusBadRequest {
		return fmt.Errorf("the runtime's streaming server answered an upgrade request with %q", b.answer.Status)
	}
	body, err := io.ReadAll(io.LimitReader(b.answer.Body, maxRefusalBytes))
	if err != nil {
		return fmt.Errorf("reading the refusal of the runtime's streaming server: %w", err)
	}
	for _, name := range []string{"Content-Type", httpstream.HeaderAcceptedProtocolVersions, "Sec-Websocket-Version"} {
		if values := b.answer.Header.Values(name); len(values) > 0 {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(b.answer.StatusCode)
	_, _ = w.Write(body)
	return nil
}

// unread returns a reader of what is left in buffered and then of conn itself.
func unread(buffered *bufio.Reader, conn io.Reader) io.Reader {
	n := buffered.Buffered()
	if n == 0 {
		return conn
	}
	head, _ := buffered.Peek(n)
	return io.MultiReader(bytes.NewReader(head), conn)
}
