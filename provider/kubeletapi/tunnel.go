// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"
	"k8s.io/utils/clock"
)

// lingerTimeout is how long a client may take to receive the rest of a stream that the runtime has ended.
const lingerTimeout = 30 * time.Second

// tunnel connects the client with the streaming server behind location and returns when both are done. An error means
// that the client was not answered yet.
//
// It is not k8s.io/apimachinery's UpgradeAwareHandler: that one closes both connections as soon as either direction
// ends. The runtime closes its end right after the exit status while a slow client is still to receive the last
// megabytes; a ping that the client sends in that moment then cuts the output short.
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
		clock: s.o.Clock, idle: s.o.StreamIdleTimeout,
	}
	p.touch()
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

// pipe copies between the two connections of one stream.
type pipe struct {
	client      net.Conn
	fromClient  io.Reader
	backend     net.Conn
	fromBackend io.Reader

	clock clock.Clock
	idle  time.Duration
	// lastByte is the time, in nanoseconds since 1970, when a byte last went either way.
	lastByte atomic.Int64
}

// The reasons for which a stream is cut, for the log.
var (
	errIdle     = errors.New("no byte went either way for too long")
	errLingered = errors.New("the client did not close its end")
)

// run copies both ways until the stream ends, and closes and joins everything. It ends when the client closes its
// connection: neither SPDY nor WebSocket clients end one direction of it alone, the end of input is a message to them.
// When the backend ends first, the client has lingerTimeout to take what is still under way and to close. It returns why
// the stream was cut, nil if it was not.
func (p *pipe) run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	defer p.close()
	outDone, inDone := make(chan struct{}), make(chan error, 1)
	wg.Go(func() { p.copyOut(); close(outDone) })
	wg.Go(func() { inDone <- p.copyIn() })

	for left := p.idle; left > 0; left = p.idleLeft() {
		timer := p.clock.NewTimer(left)
		select {
		case <-timer.C():
			continue
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case err := <-inDone:
			timer.Stop()
			return err
		case <-outDone:
			timer.Stop()
			return p.linger(ctx, inDone)
		}
	}
	return errIdle
}

// linger waits for the client to close its end.
func (p *pipe) linger(ctx context.Context, inDone <-chan error) error {
	timer := p.clock.NewTimer(lingerTimeout)
	defer timer.Stop()
	select {
	case <-inDone:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C():
		return errLingered
	}
}

// copyOut copies what the container says and tells the client when that was all. Errors are not told apart: a broken
// backend has nothing more to say, and a broken client is noticed by copyIn.
func (p *pipe) copyOut() {
	_, _ = io.Copy(touching{p.client, p}, p.fromBackend)
	if half, ok := p.client.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// copyIn copies what the client says until it has no more. Once the backend does not take it any longer it is thrown
// away: the client must be able to send its pings while it receives the rest of the output. The error is that of reading
// from the client.
func (p *pipe) copyIn() error {
	to := io.Writer(touching{p.backend, p})
	chunk := make([]byte, 32<<10)
	for {
		n, err := p.fromClient.Read(chunk)
		if n > 0 {
			if _, failed := to.Write(chunk[:n]); failed != nil {
				to = io.Discard
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("the client went away: %w", err)
		}
	}
}

func (p *pipe) close() {
	_ = p.client.Close()
	_ = p.backend.Close()
}

func (p *pipe) touch() { p.lastByte.Store(p.clock.Now().UnixNano()) }

// idleLeft returns how long the stream may go on without a byte.
func (p *pipe) idleLeft() time.Duration {
	return p.idle - p.clock.Since(time.Unix(0, p.lastByte.Load()))
}

// touching notes the time of each write.
type touching struct {
	io.Writer
	p *pipe
}

// Write writes and notes the time.
func (t touching) Write(b []byte) (int, error) {
	n, err := t.Writer.Write(b)
	if n > 0 {
		t.p.touch()
	}
	return n, err
}
