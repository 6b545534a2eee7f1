// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

const (
	// lingerTimeout is how long a client may take to receive the rest of a stream that the runtime has ended.
	lingerTimeout = 30 * time.Second
	// pingQuiet is how long there must have been no output before a ping is passed on.
	pingQuiet = time.Second
)

// pipe copies between the two connections of one stream.
//
// When a connection is closed while bytes from the other side arrive, TCP throws away what was not delivered yet. Both
// ends of a stream are in that danger when a command ends: the runtime closes its connection at once, with the last
// output still on its way, and clients send a ping every five seconds that they do not need an answer to in time. The
// client then sees the output end early, and takes that for success. So
//   - the client's connection is closed only after the client closed it, or did not for long;
//   - what the runtime does not take any more is thrown away and ends nothing;
//   - pings of SPDY clients are passed on when the runtime has been silent for a moment, not while output is flowing.
type pipe struct {
	client      net.Conn
	fromClient  io.Reader
	backend     net.Conn
	fromBackend io.Reader
	clock       clock.Clock
	idle        time.Duration
	// spdy says that the client speaks SPDY, so that its pings can be told from the rest.
	spdy bool

	// lastByte is the time, in nanoseconds since 1970, when a byte last went either way; lastOutput when one last came
	// from the backend. delivering says that the client is being waited for to take output.
	lastByte   atomic.Int64
	lastOutput atomic.Int64
	delivering atomic.Bool

	// mu guards writing to the backend and the pings.
	mu    sync.Mutex
	deaf  bool
	pings spdyPings
	// rest is input without pings, kept for its memory.
	rest []byte
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
	p.note(&p.lastByte)
	p.note(&p.lastOutput)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer p.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	outDone, inDone := make(chan struct{}), make(chan error, 1)
	held := make(chan struct{}, 1)
	wg.Go(func() { p.copyOut(); close(outDone) })
	wg.Go(func() { inDone <- p.copyIn(held) })
	wg.Go(func() { p.passPingsOn(ctx, held) })

	for left := p.idle; left > 0; left = p.idle - p.since(&p.lastByte) {
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
	case err := <-inDone:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C():
		return errLingered
	}
}

// copyOut copies what the container says and tells the client when that was all. Errors are not told apart: a broken
// backend has nothing more to say, and a broken client is noticed by copyIn.
func (p *pipe) copyOut() {
	_, _ = io.Copy((*delivery)(p), p.fromBackend)
	if half, ok := p.client.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// delivery writes output to the client and keeps the times.
type delivery pipe

// Write writes to the client.
func (d *delivery) Write(b []byte) (int, error) {
	p := (*pipe)(d)
	p.delivering.Store(true)
	n, err := p.client.Write(b)
	p.note(&p.lastOutput)
	p.note(&p.lastByte)
	p.delivering.Store(false)
	return n, err
}

// copyIn copies what the client says until it has no more. The error is that of reading from the client. It puts a token
// into held when there are pings to pass on.
func (p *pipe) copyIn(held chan<- struct{}) error {
	chunk := make([]byte, 32<<10)
	for {
		n, err := p.fromClient.Read(chunk)
		if n > 0 && p.take(chunk[:n]) {
			select {
			case held <- struct{}{}:
			default:
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

// take passes input on, without the pings, and says whether there are any.
func (p *pipe) take(input []byte) (held bool) {
	p.note(&p.lastByte)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spdy {
		p.rest = p.pings.split(p.rest[:0], input)
		input = p.rest
	}
	p.send(input)
	return len(p.pings.held) > 0
}

// send writes to the backend. Once that fails everything is thrown away: the client must be able to go on talking while
// it receives the rest of the output. p.mu is held.
func (p *pipe) send(input []byte) {
	if p.deaf || len(input) == 0 {
		return
	}
	_, err := p.backend.Write(input)
	p.deaf = err != nil
}

// passPingsOn passes pings on when the backend has been silent for pingQuiet.
func (p *pipe) passPingsOn(ctx context.Context, held <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-held:
		}
		for left := p.untilQuiet(); left > 0; left = p.untilQuiet() {
			timer := p.clock.NewTimer(left)
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-timer.C():
			}
		}
		p.sendPings()
	}
}

// sendPings passes the held pings on, or has them passed on at the end of the frame that is under way: inside a frame
// they would be taken for its content.
func (p *pipe) sendPings() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.pings.betweenFrames() {
		p.pings.release = true
		return
	}
	p.send(p.pings.take())
}

// untilQuiet returns how long to wait, at least, before the backend can be called silent.
func (p *pipe) untilQuiet() time.Duration {
	if p.delivering.Load() {
		return pingQuiet
	}
	return pingQuiet - p.since(&p.lastOutput)
}

func (p *pipe) close() {
	_ = p.client.Close()
	_ = p.backend.Close()
}

func (p *pipe) note(at *atomic.Int64) { at.Store(p.clock.Now().UnixNano()) }

func (p *pipe) since(at *atomic.Int64) time.Duration { return p.clock.Since(time.Unix(0, at.Load())) }
