// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/containerd/errdefs"

	"github.com/tombolo-dev/tombolo/link/safetext"
)

// maxProxyAnswer bounds the header with which a proxy answers.
const maxProxyAnswer = 64 << 10

// Dialer opens a TCP connection.
type Dialer func(ctx context.Context, address string) (net.Conn, error)

// ParseProxy reads where a proxy is: http://[user:password@]host:port. An error is InvalidArgument and does not have the password.
func ParseProxy(text string) (*url.URL, error) {
	wrong := func(why string) (*url.URL, error) {
		return nil, fmt.Errorf("proxy: %s: give http://host:port or http://user:password@host:port: %w", why, errdefs.ErrInvalidArgument)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return wrong("not a URL")
	case u.Scheme != "http":
		return wrong(fmt.Sprintf("scheme %q is not known", u.Scheme))
	case u.Hostname() == "":
		return wrong("there is no host")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return wrong("there is something after the port")
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), "80")
	}
	return u, nil
}

// Through returns a dialer that asks a proxy for a tunnel, by HTTP CONNECT.
func Through(proxy *url.URL, dial Dialer) Dialer {
	return func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := dial(ctx, proxy.Host)
		if err != nil {
			return nil, fmt.Errorf("connecting to the proxy %s: %w", proxy.Host, err)
		}
		if err := tunnel(ctx, conn, proxy, address); err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("asking the proxy %s for a tunnel to %s: %w", proxy.Host, address, err)
		}
		return conn, nil
	}
}

// whoAsks says what to do about a proxy that does not know the user.
func whoAsks(user *url.Userinfo, status int) error {
	if user == nil {
		return fmt.Errorf("it wants to know who asks (%d): give http://user:password@host:port", status)
	}
	return fmt.Errorf("it does not accept the user %q with its password (%d): check http://user:password@host:port", safetext.Short(user.Username()), status)
}

// tunnel asks for a tunnel on a connection to the proxy, within ctx.
func tunnel(ctx context.Context, conn net.Conn, proxy *url.URL, address string) error {
	// A deadline in the past ends what is under way.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{"User-Agent": {"tombolo"}}}
	if proxy.User != nil {
		password, _ := proxy.User.Password()
		request.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(proxy.User.Username()+":"+password)))
	}
	if err := request.Write(conn); err != nil {
		return errors.Join(ctx.Err(), err)
	}
	reader := bufio.NewReader(io.LimitReader(conn, maxProxyAnswer))
	answer, err := http.ReadResponse(reader, request) //nolint:bodyclose // a tunnel has no body, and reading for one would never end
	if err != nil {
		return errors.Join(ctx.Err(), fmt.Errorf("it does not answer as an HTTP proxy does: %s", safetext.Short(err.Error())))
	}
	switch {
	case answer.StatusCode == http.StatusProxyAuthRequired, answer.StatusCode == http.StatusUnauthorized: // with a wrong password some say 401
		return whoAsks(proxy.User, answer.StatusCode)
	case answer.StatusCode/100 != 2:
		return fmt.Errorf("it answered %q: does it allow CONNECT to that port?", safetext.Short(answer.Status))
	case reader.Buffered() > 0:
		return errors.New("it sent more than an answer")
	case !stop():
		return ctx.Err()
	}
	return nil
}
