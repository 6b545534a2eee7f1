// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"google.golang.org/grpc"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/host/hostpb"
)

// chunkSize is the most bytes that one message of a byte stream or a log carries.
const chunkSize = 32 << 10

// dialTimeout bounds the wait until the target of a byte stream was reached.
const dialTimeout = 30 * time.Second

func (c *client) DialStreaming(ctx context.Context, address string) (net.Conn, error) {
	return c.dial(ctx, hostAddr(address), &hostpb.DialRequest{Message: &hostpb.DialRequest_StreamingAddress{StreamingAddress: address}})
}

func (c *client) DialPod(ctx context.Context, sandboxID string, port uint16) (net.Conn, error) {
	address := hostAddr(net.JoinHostPort(sandboxID, strconv.Itoa(int(port))))
	return c.dial(ctx, address, &hostpb.DialRequest{Message: &hostpb.DialRequest_PodPort{
		PodPort: &hostpb.PodPort{SandboxId: sandboxID, Port: uint32(port)}}})
}

// dial opens a byte stream. ctx bounds only the opening: the stream lives until it is closed.
func (c *client) dial(ctx context.Context, address hostAddr, first *hostpb.DialRequest) (net.Conn, error) {
	streamCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	opening, opened := context.WithTimeout(ctx, dialTimeout)
	defer opened()
	stopWatching := context.AfterFunc(opening, cancel)
	stream, err := c.host.Dial(streamCtx)
	if err == nil {
		err = handshake(stream, first)
	}
	if !stopWatching() && err == nil {
		err = opening.Err()
	}
	if err != nil {
		cancel()
		if ctx.Err() == nil && opening.Err() != nil {
			return nil, fmt.Errorf("%w: the host did not reach %s within %s", errdefs.ErrUnavailable, address, dialTimeout)
		}
		return nil, toNative(ctx, err)
	}
	return newStreamConn(stream, cancel, address, c.clock), nil
}

// handshake names the target and waits until it was reached.
func handshake(stream dialStream, first *hostpb.DialRequest) error {
	if err := stream.Send(first); err != nil && !errors.Is(err, io.EOF) {
		return err // io.EOF says that Recv has the reason
	}
	answer, err := stream.Recv()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		return err
	}
	if answer.GetConnected() == nil {
		return fmt.Errorf("%w: the host answered a dial with %T", errdefs.ErrInternal, answer.GetMessage())
	}
	return nil
}

type dialStream = grpc.BidiStreamingClient[hostpb.DialRequest, hostpb.DialResponse]

// closeLinger is how long a closed stream may take to deliver what was written before it was closed.
const closeLinger = 2 * time.Second

// hostAddr is an address on the other side of the link.
type hostAddr string

func (hostAddr) Network() string  { return "tombolo" }
func (a hostAddr) String() string { return string(a) }

// streamConn is a byte stream over an RPC as a net.Conn with half-close. One goroutine receives and hands each piece
// to a reader, so that the host is held up when nobody reads. It ends with the RPC.
type streamConn struct {
	stream  dialStream
	cancel  context.CancelFunc
	address hostAddr
	clock   clock.WithDelayedExecution

	received chan piece    // from the receiver; the last piece has an error
	closed   chan struct{} // closed by Close
	close    sync.Once

	readMu  sync.Mutex // held by Read
	rest    []byte     // of the newest piece
	readErr error      // how the stream ended, once it did

	writeMu    sync.Mutex // held by Write and CloseWrite
	writeEnded bool

	readDeadline  *deadline
	writeDeadline *deadline
}

var _ net.Conn = (*streamConn)(nil)

type piece struct {
	data []byte
	err  error
}

func newStreamConn(stream dialStream, cancel context.CancelFunc, address hostAddr, clk clock.WithDelayedExecution) *streamConn {
	c := &streamConn{
		stream:        stream,
		cancel:        cancel,
		address:       address,
		clock:         clk,
		received:      make(chan piece),
		closed:        make(chan struct{}),
		readDeadline:  newDeadline(clk),
		writeDeadline: newDeadline(clk),
	}
	go c.receive()
	return c
}

// receive hands pieces to a reader until the reading direction ends or the connection is closed, and then waits for the
// end of the RPC, so that its resources are freed.
func (c *streamConn) receive() {
	defer c.cancel()
	for {
		p, open := c.next()
		select {
		case c.received <- p:
		case <-c.closed:
		}
		if p.err == nil && !isClosed(c.closed) {
			continue
		}
		for open {
			_, open = c.next()
		}
		return
	}
}

// next waits for one message and says whether the RPC goes on after it.
func (c *streamConn) next() (p piece, open bool) {
	message, err := c.stream.Recv()
	switch {
	case errors.Is(err, io.EOF):
		return piece{err: io.EOF}, false
	case err != nil:
		return piece{err: toNative(context.Background(), err)}, false
	case message.GetEof() != nil:
		// Only this direction has ended. The RPC goes on for the other one, and whatever ends it is nothing that a reader
		// would still want to know.
		return piece{err: io.EOF}, true
	default:
		return piece{data: message.GetData()}, true
	}
}

// Read returns bytes of the target. It returns io.EOF after the target ended its direction.
func (c *streamConn) Read(b []byte) (int, error) {
	c.readMu.Lock()
	defer c.readMu.Unlock()
	if len(c.rest) == 0 && c.readErr == nil {
		if err := c.nextPiece(); err != nil {
			return 0, err
		}
	}
	if len(c.rest) == 0 {
		return 0, c.readErr
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// nextPiece waits for a piece that is not empty or for the end of the stream.
func (c *streamConn) nextPiece() error {
	for len(c.rest) == 0 && c.readErr == nil {
		if c.readDeadline.passed() {
			return os.ErrDeadlineExceeded
		}
		select {
		case p := <-c.received:
			c.rest, c.readErr = p.data, p.err
		case <-c.closed:
			return net.ErrClosed
		case <-c.readDeadline.wait():
			return os.ErrDeadlineExceeded
		}
	}
	return nil
}

// Write sends bytes to the target. It blocks while the target does not take them. When a write deadline passes in the
// middle, the stream is broken.
func (c *streamConn) Write(b []byte) (int, error) {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	sent := 0
	for sent < len(b) {
		if err := c.writable(); err != nil {
			return sent, err
		}
		n := min(len(b)-sent, chunkSize)
		// A copy, because gRPC may still use the message after Send returned.
		data := append([]byte(nil), b[sent:sent+n]...)
		if err := c.send(&hostpb.DialRequest{Message: &hostpb.DialRequest_Data{Data: data}}); err != nil {
			return sent, err
		}
		sent += n
	}
	return sent, nil
}

func (c *streamConn) writable() error {
	switch {
	case isClosed(c.closed):
		return net.ErrClosed
	case c.writeEnded:
		return fmt.Errorf("writing after CloseWrite: %w", net.ErrClosed)
	case c.writeDeadline.passed():
		return os.ErrDeadlineExceeded
	default:
		return nil
	}
}

// send sends one message, and breaks the stream if the write deadline passes meanwhile.
func (c *streamConn) send(message *hostpb.DialRequest) error {
	stop := c.writeDeadline.watch(c.cancel)
	err := c.stream.Send(message)
	passed := stop()
	switch {
	case err == nil:
		return nil
	case isClosed(c.closed):
		return net.ErrClosed
	case passed:
		return os.ErrDeadlineExceeded
	case errors.Is(err, io.EOF):
		return fmt.Errorf("writing to %s: %w", c.address, io.ErrClosedPipe) // Read has the reason
	default:
		return toNative(context.Background(), err)
	}
}

// CloseWrite tells the target that no more bytes come. Reading goes on.
func (c *streamConn) CloseWrite() error {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if err := c.writable(); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	c.writeEnded = true
	return c.stream.CloseSend()
}

// Close ends both directions. What was written before is still delivered; a target that does not end its direction as
// well is reset after closeLinger. The stream's goroutine ends by then.
func (c *streamConn) Close() error {
	c.close.Do(func() {
		close(c.closed)
		c.readDeadline.set(time.Time{})
		c.writeDeadline.set(time.Time{})
		if !c.writeMu.TryLock() {
			c.cancel() // a Write is held up; it must not stay so
			return
		}
		defer c.writeMu.Unlock()
		c.clock.AfterFunc(closeLinger, c.cancel)
		if !c.writeEnded && c.stream.CloseSend() != nil {
			c.cancel()
		}
	})
	return nil
}

func (c *streamConn) LocalAddr() net.Addr  { return hostAddr("node") }
func (c *streamConn) RemoteAddr() net.Addr { return c.address }

// SetDeadline sets both deadlines.
func (c *streamConn) SetDeadline(t time.Time) error {
	c.readDeadline.set(t)
	c.writeDeadline.set(t)
	return nil
}

// SetReadDeadline sets when Read gives up; zero never.
func (c *streamConn) SetReadDeadline(t time.Time) error {
	c.readDeadline.set(t)
	return nil
}

// SetWriteDeadline sets when Write gives up; zero never.
func (c *streamConn) SetWriteDeadline(t time.Time) error {
	c.writeDeadline.set(t)
	return nil
}
