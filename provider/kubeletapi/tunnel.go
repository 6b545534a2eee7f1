// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/containerd/errdefs"
)

// tunnel connects the client with the streaming server behind location and returns when both are done. An error means
// that the client was not answered yet.
//
// It is not k8s.io/apimachinery's UpgradeAwareHandler: that one closes both connections as soon as either direction
// ends. The runtime closes its end right after the exit status, while a slow client is still to receive the last
// megabytes; a ping that the client sends in that moment then cuts the output short, see pipe.
func (s *Server) tunnel(w http.ResponseWriter, r *http.Request, location string) error {
	target, err := parseLocation(location)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	far, err := s.connectInTime(cancel, func() (*backend, error) { return s.connect(ctx, r, target) })
	if err != nil {
		return err
	}
	if far.answer.StatusCode != http.StatusSwitchingProtocols {
		return far.refuse(w)
	}
	defer func() { _ = far.conn.Close() }()
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return fmt.Errorf("taking over the client's connection: %w", err)
	}
	p := &pipe{
		client: client, fromClient: unread(buffered.Reader, client), backend: far.conn, fromBackend: far.from,
		clock: s.o.Clock, idle: s.o.StreamIdleTimeout, spdy: strings.HasPrefix(far.answer.Header.Get("Upgrade"), "SPDY/"),
	}
	far.answer.Body = nil
	if err := far.answer.Write(client); err != nil {
		_ = client.Close()
		return nil
	}
	reason := p.run(ctx)
	s.log.Debug("A stream ended", "path", r.URL.Path, "reason", reason)
	return nil
}

// connectInTime runs connect and ends it with cancel when there is no answer within the call timeout.
func (s *Server) connectInTime(cancel context.CancelFunc, connect func() (*backend, error)) (*backend, error) {
	type result struct {
		far *backend
		err error
	}
	connected := make(chan result, 1)
	go func() {
		far, err := connect()
		connected <- result{far, err}
	}()
	timer := s.o.Clock.NewTimer(s.o.CallTimeout)
	defer timer.Stop()
	select {
	case got := <-connected:
		return got.far, got.err
	case <-timer.C():
		cancel()
		<-connected
		return nil, fmt.Errorf("%w: the runtime's streaming server did not answer within %s",
			errdefs.ErrUnavailable, s.o.CallTimeout)
	}
}
