// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

func TestOneStalledStreamHoldsUpNeitherOthersNorCalls(t *testing.T) {
	s := newTarget(t)
	l := connect(t, &fakeHost{dial: s.dial}, nil)
	stalled, stalledFar := stream(t, l, s)
	var wg sync.WaitGroup
	var written [2]int
	block := make([]byte, 256<<10)
	for i, w := range []net.Conn{stalled, stalledFar} {
		wg.Go(func() {
			for {
				if err := w.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
					return
				}
				n, err := w.Write(block)
				written[i] += n
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait() // both directions are full
	for i, n := range written {
		// Our windows and what the kernel keeps for a socket.
		if n > 32<<20 {
			t.Errorf("direction %d took %d bytes that nobody read", i, n)
		}
	}
	if _, err := l.client.ListPods(t.Context()); err != nil {
		t.Errorf("a call beside it: %v", err)
	}
	near, far := stream(t, l, s)
	say(t, near, "hello")
	hear(t, far, "hello")
	say(t, far, "you")
	hear(t, near, "you")
}

func TestLargeStreamsArriveUnchangedBothWays(t *testing.T) {
	const size = 16 << 20
	_, near, far := newStream(t)
	seed := make([]byte, 1<<20)
	if _, err := rand.Read(seed); err != nil {
		t.Fatal(err)
	}
	sum := func() string {
		h := sha256.New()
		for range size / len(seed) {
			h.Write(seed)
		}
		return fmt.Sprintf("%x", h.Sum(nil))
	}()
	send := func(w halfCloser) error {
		for range size / len(seed) {
			if _, err := w.Write(seed); err != nil {
				return err
			}
		}
		return w.CloseWrite()
	}
	receive := func(r io.Reader) error {
		h := sha256.New()
		n, err := io.Copy(h, r)
		if err == nil && (n != size || fmt.Sprintf("%x", h.Sum(nil)) != sum) {
			err = fmt.Errorf("%d bytes arrived, or others", n)
		}
		return err
	}
	results := make(chan error, 4)
	go func() { results <- send(near) }()
	go func() { results <- send(far) }()
	go func() { results <- receive(near) }()
	go func() { results <- receive(far) }()
	for range 4 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

func TestManyStreamsAtOnce(t *testing.T) {
	s := newTarget(t)
	l := connect(t, &fakeHost{dial: s.dial}, nil)
	var echoes sync.WaitGroup
	echoes.Go(func() {
		for range 50 {
			far := <-s.conns
			echoes.Go(func() {
				defer far.Close()
				_, _ = io.Copy(far, far)
			})
		}
	})
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			conn, err := l.client.DialPod(t.Context(), "x", 80)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			text := bytes.Repeat([]byte{byte(i)}, 100_000)
			go func() {
				_, _ = conn.Write(text)
				if half, ok := conn.(halfCloser); ok {
					_ = half.CloseWrite()
				}
			}()
			if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, text) {
				t.Errorf("stream %d: %d bytes, %v", i, len(got), err)
			}
		})
	}
	wg.Wait()
	echoes.Wait()
}

func BenchmarkStreamFromTheTarget(b *testing.B) {
	_, near, far := newStream(b)
	block := make([]byte, 1<<20)
	b.SetBytes(int64(len(block)))
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, near)
		done <- err
	}()
	for b.Loop() {
		if _, err := far.Write(block); err != nil {
			b.Fatal(err)
		}
	}
	_ = far.Close()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}
