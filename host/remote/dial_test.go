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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/tombolo-dev/tombolo/host/hostpb"
)

// target is a TCP server whose one connection at a time a test plays.
type target struct {
	listener *net.TCPListener
	conns    chan *net.TCPConn
}

func newTarget(t testing.TB) *target {
	t.Helper()
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	s := &target{listener: listener, conns: make(chan *net.TCPConn, 100)}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := listener.AcceptTCP()
			if err != nil {
				return
			}
			s.conns <- conn
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		wg.Wait()
		close(s.conns)
		for conn := range s.conns {
			_ = conn.Close()
		}
	})
	return s
}

func (s *target) dial(ctx context.Context) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", s.listener.Addr().String())
}

// halfCloser is what every connection of a host is.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// stream opens a byte stream and returns both of its ends.
func stream(t testing.TB, l *link, s *target) (halfCloser, *net.TCPConn) {
	t.Helper()
	conn, err := l.client.DialPod(t.Context(), "5a4db0", 80)
	if err != nil {
		t.Fatal(err)
	}
	near, ok := conn.(halfCloser)
	if !ok {
		t.Fatalf("%T has no half-close", conn)
	}
	t.Cleanup(func() { _ = conn.Close() })
	far := <-s.conns
	t.Cleanup(func() { _ = far.Close() })
	return near, far
}

func newStream(t testing.TB) (*link, halfCloser, *net.TCPConn) {
	t.Helper()
	s := newTarget(t)
	l := connect(t, &fakeHost{dial: s.dial}, nil)
	near, far := stream(t, l, s)
	return l, near, far
}

func say(t *testing.T, w io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, r io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(r, got); err != nil || string(got) != want {
		t.Fatalf("heard %q, %v, want %q", got, err, want)
	}
}

func hearEnd(t *testing.T, r io.Reader) {
	t.Helper()
	if n, err := r.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Fatalf("read %d bytes, %v, want the end", n, err)
	}
}

func TestTargetsAreNamedAsTheyWereAsked(t *testing.T) {
	s := newTarget(t)
	fake := &fakeHost{dial: s.dial}
	l := connect(t, fake, nil)
	pod, err := l.client.DialPod(t.Context(), "5a4db0", 8080)
	if err != nil {
		t.Fatal(err)
	}
	defer pod.Close()
	streaming, err := l.client.DialStreaming(t.Context(), "127.0.0.1:4711")
	if err != nil {
		t.Fatal(err)
	}
	defer streaming.Close()
	if diff := cmp.Diff([]any{"5a4db0", uint16(8080), "127.0.0.1:4711"}, fake.asked); diff != "" {
		t.Error(diff)
	}
	if got := streaming.RemoteAddr().String(); got != "127.0.0.1:4711" {
		t.Errorf("remote address %s", got)
	}
}

func TestDirectionsOfAStreamEndOnTheirOwn(t *testing.T) {
	t.Run("caller first", func(t *testing.T) {
		_, near, far := newStream(t)
		say(t, near, "question")
		if err := near.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		hear(t, far, "question")
		hearEnd(t, far)
		say(t, far, "answer")
		hear(t, near, "answer")
		if err := far.Close(); err != nil {
			t.Fatal(err)
		}
		hearEnd(t, near)
		hearEnd(t, near) // and stays so
	})
	t.Run("target first", func(t *testing.T) {
		_, near, far := newStream(t)
		say(t, far, "banner")
		if err := far.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		hear(t, near, "banner")
		hearEnd(t, near)
		say(t, near, "still here")
		hear(t, far, "still here")
		if err := near.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		hearEnd(t, far)
	})
}

func TestCloseDeliversWhatWasWritten(t *testing.T) {
	_, near, far := newStream(t)
	text := strings.Repeat("x", 300_000)
	done := make(chan error, 1)
	go func() {
		got, err := io.ReadAll(far)
		if err == nil && string(got) != text {
			err = fmt.Errorf("%d bytes of %d", len(got), len(text))
		}
		done <- errors.Join(err, far.Close())
	}()
	say(t, near, text)
	if err := near.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := near.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write after close: %v", err)
	}
	if _, err := near.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read after close: %v", err)
	}
}

func TestClosedStreamIsResetWhenTheTargetDoesNotEnd(t *testing.T) {
	_, near, far := newStream(t)
	_ = near.Close()
	hearEnd(t, far)
	begin := time.Now()
	if _, err := far.Read(make([]byte, 1)); err == nil {
		t.Fatal("read something")
	}
	// The end was seen as such; the reset shows when writing goes on.
	eventually(t, "writing fails", func() bool {
		_, err := far.Write([]byte("x"))
		return err != nil
	})
	if took := time.Since(begin); took > closeLinger+3*time.Second {
		t.Errorf("took %s", took)
	}
}

func TestResetOfTheTargetIsNotTakenForItsEnd(t *testing.T) {
	_, near, far := newStream(t)
	say(t, far, "half an ans")
	hear(t, near, "half an ans")
	if err := far.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	_ = far.Close()
	if _, err := near.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) || !errdefs.IsAborted(err) {
		t.Errorf("read: %v", err)
	}
	eventually(t, "writing fails", func() bool {
		_, err := near.Write([]byte("x"))
		return err != nil
	})
}

func TestTargetThatCannotBeReachedIsTheDialsError(t *testing.T) {
	l := connect(t, &fakeHost{err: fmt.Errorf("sandbox x: %w", errdefs.ErrNotFound)}, nil)
	if _, err := l.client.DialPod(t.Context(), "x", 80); !errdefs.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
	if _, err := l.client.DialStreaming(t.Context(), "x:1"); !errdefs.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.client.DialPod(ctx, "x", 80); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestEndOfTheDialsContextLeavesTheStreamAlone(t *testing.T) {
	s := newTarget(t)
	l := connect(t, &fakeHost{dial: s.dial}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	conn, err := l.client.DialPod(ctx, "x", 80)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	cancel()
	far := <-s.conns
	defer far.Close()
	say(t, conn, "hello")
	hear(t, far, "hello")
}

func TestCancelledDialEndsOnTheHost(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	l := connect(t, &fakeHost{dial: func(ctx context.Context) (net.Conn, error) {
		defer close(ended)
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}}, nil)
	if _, err := l.client.DialPod(ctx, "x", 80); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-ended
}

func TestStreamEndsOnTheHostWhenTheLinkBreaks(t *testing.T) {
	l, near, far := newStream(t)
	say(t, near, "hello")
	hear(t, far, "hello")
	l.cut()
	if _, err := near.Read(make([]byte, 1)); !errdefs.IsUnavailable(err) {
		t.Errorf("the caller sees %v", err)
	}
	if _, err := far.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the target sees %v instead of a reset", err)
	}
}

func TestReadDeadlineEndsAReadAndNotTheStream(t *testing.T) {
	s := newTarget(t)
	l := connect(t, &fakeHost{dial: s.dial}, nil)
	clk := clocktesting.NewFakeClock(time.Now())
	conn, err := NewClient(l.conn, ClientOptions{Clock: clk}).DialPod(t.Context(), "x", 80)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	far := <-s.conns
	defer far.Close()
	if err := conn.SetReadDeadline(clk.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := conn.Read(make([]byte, 1))
		done <- err
	}()
	clk.Step(59 * time.Second)
	select {
	case err := <-done:
		t.Fatalf("ended early: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	clk.Step(2 * time.Second)
	if err := <-done; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("while it is past: %v", err)
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	say(t, far, "hello")
	hear(t, conn, "hello")
}

func TestWriteDeadlineInThePastRefusesAWrite(t *testing.T) {
	_, near, far := newStream(t)
	if err := near.SetWriteDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := near.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if err := near.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	say(t, near, "hello")
	hear(t, far, "hello")
}

func TestCloseEndsReadsAndWritesThatAreHeldUp(t *testing.T) {
	_, near, far := newStream(t)
	done := make(chan error, 2)
	go func() {
		_, err := near.Read(make([]byte, 1))
		done <- err
	}()
	go func() {
		block := make([]byte, 1<<20)
		for {
			if _, err := near.Write(block); err != nil {
				done <- err
				return
			}
		}
	}()
	time.Sleep(300 * time.Millisecond) // until the write is held up
	_ = near.Close()
	for range 2 {
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v", err)
		}
	}
	_ = far.Close()
}

func TestFirstMessageMustNameATarget(t *testing.T) {
	l := connect(t, &fakeHost{}, nil)
	for name, first := range map[string]*hostpb.DialRequest{
		"nothing":  {},
		"data":     {Message: &hostpb.DialRequest_Data{Data: []byte("x")}},
		"port 0":   {Message: &hostpb.DialRequest_PodPort{PodPort: &hostpb.PodPort{SandboxId: "x"}}},
		"port 1e5": {Message: &hostpb.DialRequest_PodPort{PodPort: &hostpb.PodPort{SandboxId: "x", Port: 100_000}}},
	} {
		stream, err := hostpb.NewHostServiceClient(l.conn).Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(first); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}
