// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/containerd/errdefs"

	"github.com/tombolo-dev/tombolo/host"
)

// maxRedirects is how many redirects are followed, net/http's own number.
const maxRedirects = 10

// tryHTTP makes a request. An error means that the request makes no sense.
func tryHTTP(ctx context.Context, req *host.HTTPRequest, timeout time.Duration) (*host.ProbeResult, error) {
	request, err := newRequest(ctx, req)
	if err != nil {
		return nil, err
	}
	client, done := newClient(ctx)
	defer done()
	client.Timeout = timeout // not ctx's, because its end has words of its own
	resp, err := client.Do(request)
	if err != nil {
		return failure(err.Error()), nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxOutput))
	if err != nil {
		return failure(err.Error()), nil
	}
	switch code := resp.StatusCode; {
	case code < http.StatusOK || code >= http.StatusBadRequest:
		// Without the body, which may show a user of the API what only the host may reach.
		return failure(fmt.Sprintf("HTTP probe failed with statuscode: %d", code)), nil
	case code >= http.StatusMultipleChoices:
		return &host.ProbeResult{Outcome: host.ProbeWarning, Output: "Probe terminated redirects, Response body: " + string(body)}, nil
	default:
		return &host.ProbeResult{Outcome: host.ProbeSuccess, Output: string(body)}, nil
	}
}

// Hook makes the request of a hook and reads its answer, which is a success whatever it says, until ctx ends. When a server
// of plain HTTP answers a request for HTTPS, the request is made again without encryption and credentials; fallback says that
// this was a success.
func Hook(ctx context.Context, req *host.HTTPRequest) (fallback bool, err error) {
	err = ask(ctx, req)
	if !errors.Is(err, http.ErrSchemeMismatch) {
		return false, err
	}
	plain := *req
	plain.Scheme, plain.Headers = "http", nil
	for _, header := range req.Headers {
		if http.CanonicalHeaderKey(header.Name) != "Authorization" {
			plain.Headers = append(plain.Headers, header)
		}
	}
	if ask(ctx, &plain) != nil {
		return false, err
	}
	return true, nil
}

func ask(ctx context.Context, req *host.HTTPRequest) error {
	request, err := newRequest(ctx, req)
	if err != nil {
		return err
	}
	client, done := newClient(ctx)
	defer done()
	resp, err := client.Do(request)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.ContentLength <= maxOutput { // or it is not known
		// A program may still be at work while it answers.
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxOutput))
	}
	return ctx.Err()
}

// CheckHTTP says whether a request makes sense.
func CheckHTTP(req *host.HTTPRequest) error {
	if req.Scheme != "http" && req.Scheme != "https" {
		return fmt.Errorf("scheme %q is neither http nor https: %w", req.Scheme, errdefs.ErrInvalidArgument)
	}
	return checkTarget(req.Host, req.Port)
}

func newRequest(ctx context.Context, req *host.HTTPRequest) (*http.Request, error) {
	target, err := url.Parse(req.Path)
	if err != nil {
		target = &url.URL{Path: req.Path} // as the kubelet does: it is for the program to judge
	}
	target.Scheme, target.Host = req.Scheme, address(req.Host, req.Port)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("making a request for path %q: %w: %w", req.Path, err, errdefs.ErrInvalidArgument)
	}
	for _, header := range req.Headers {
		request.Header.Add(header.Name, header.Value)
	}
	if request.Header.Get("Accept") == "" {
		request.Header.Del("Accept")
	}
	request.Host = request.Header.Get("Host") // that of the URL if empty
	return request, nil
}

// newClient returns a client for one request, which uses no proxy and keeps no connection. done ends what is left of it.
func newClient(ctx context.Context) (client *http.Client, done func()) {
	sockets := newSockets(ctx)
	transport := &http.Transport{
		DialContext:        sockets.dial,
		TLSClientConfig:    &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the question is whether the program answers, and pods have no certificates for their addresses
		DisableKeepAlives:  true,
		DisableCompression: true, // no Accept-Encoding
		ForceAttemptHTTP2:  true, // over TLS, as the kubelet does
	}
	return &http.Client{Transport: transport, CheckRedirect: checkRedirect}, func() {
		transport.CloseIdleConnections()
		sockets.close()
	}
}

// checkRedirect follows redirects that stay on the host name. Any other one is the answer.
func checkRedirect(next *http.Request, via []*http.Request) error {
	switch {
	case next.URL.Hostname() != via[0].URL.Hostname():
		return http.ErrUseLastResponse
	case len(via) >= maxRedirects:
		return fmt.Errorf("stopped after %d redirects", maxRedirects)
	}
	return nil
}
