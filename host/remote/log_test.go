// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"

	"github.com/tombolo-dev/tombolo/host"
)

func TestLogRequestsCrossTheLink(t *testing.T) {
	fake := &fakeHost{}
	l := connect(t, fake, nil)
	for name, req := range map[string]host.LogRequest{
		"everything": {Path: "/x/0.log", ContainerID: "c", Follow: true, Timestamps: true, TailLines: 5, LimitBytes: 6, Since: time.Unix(7, 8).UTC()},
		"no limits":  {Path: "/x/0.log", TailLines: -1, LimitBytes: -1},
		"nothing":    {Path: "/x/0.log", TailLines: 0, LimitBytes: 0},
	} {
		t.Run(name, func(t *testing.T) {
			fake.asked = nil
			if err := l.client.ReadLog(t.Context(), req, io.Discard, nil); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]any{req, false, true}, fake.asked); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLogArrivesCompleteAndInOrder(t *testing.T) {
	var want bytes.Buffer
	fake := &fakeHost{readLog: func(_ context.Context, _ host.LogRequest, stdout, stderr io.Writer) error {
		for i := range 20_000 {
			line := fmt.Sprintf("%d %s\n", i, strings.Repeat("x", i%100))
			want.WriteString(line)
			out := stdout
			if i%7 == 0 {
				out = stderr
			}
			if _, err := io.WriteString(out, line); err != nil {
				return err
			}
		}
		long := strings.Repeat("y", 3*chunkSize+1)
		want.WriteString(long)
		_, err := io.WriteString(stdout, long)
		return err
	}}
	l := connect(t, fake, nil)
	var got, onlyErr bytes.Buffer
	if err := l.client.ReadLog(t.Context(), host.LogRequest{}, &got, io.MultiWriter(&got, &onlyErr)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("%d bytes arrived of %d, or in another order", got.Len(), want.Len())
	}
	for line := range strings.Lines(onlyErr.String()) {
		var n int
		if _, err := fmt.Sscan(line, &n); err != nil || n%7 != 0 {
			t.Fatalf("standard error has %q", line)
		}
	}
}

func TestLineOfAFollowedLogArrivesAtOnce(t *testing.T) {
	next := make(chan struct{})
	fake := &fakeHost{readLog: func(_ context.Context, _ host.LogRequest, stdout, _ io.Writer) error {
		for i := range 3 {
			if _, err := fmt.Fprintf(stdout, "line %d\n", i); err != nil {
				return err
			}
			<-next // nothing more until the line was seen
		}
		return nil
	}}
	l := connect(t, fake, nil)
	reader, writer := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- l.client.ReadLog(t.Context(), host.LogRequest{Follow: true}, writer, nil)
	}()
	for i := range 3 {
		hear(t, reader, fmt.Sprintf("line %d\n", i))
		next <- struct{}{}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestReaderThatGoesAwayEndsTheLogOnTheHost(t *testing.T) {
	ended := make(chan struct{}, 1)
	fake := &fakeHost{readLog: func(ctx context.Context, _ host.LogRequest, stdout, _ io.Writer) error {
		_, _ = io.WriteString(stdout, "x")
		<-ctx.Done()
		ended <- struct{}{}
		return ctx.Err()
	}}
	l := connect(t, fake, nil)
	ctx, cancel := context.WithCancel(t.Context())
	err := l.client.ReadLog(ctx, host.LogRequest{Follow: true}, writerFunc(func(p []byte) (int, error) {
		cancel()
		return len(p), nil
	}), nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-ended

	broken := errors.New("broken pipe")
	err = l.client.ReadLog(t.Context(), host.LogRequest{Follow: true}, writerFunc(func([]byte) (int, error) { return 0, broken }), nil)
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	<-ended
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestSlowReaderHoldsUpTheLogAndNothingElse(t *testing.T) {
	var wrote int
	ended := make(chan struct{})
	fake := &fakeHost{readLog: func(_ context.Context, _ host.LogRequest, stdout, _ io.Writer) error {
		defer close(ended)
		block := make([]byte, 64<<10)
		for {
			n, err := stdout.Write(block)
			wrote += n
			if err != nil {
				return err
			}
		}
	}}
	l := connect(t, fake, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	held := make(chan struct{}, 1)
	go func() {
		done <- l.client.ReadLog(ctx, host.LogRequest{}, writerFunc(func([]byte) (int, error) {
			held <- struct{}{}
			<-ctx.Done()
			return 0, ctx.Err()
		}), nil)
	}()
	<-held
	if _, err := l.client.ListPods(t.Context()); err != nil {
		t.Error(err)
	}
	time.Sleep(300 * time.Millisecond) // until the writer is held up
	cancel()
	<-ended
	if wrote > 8<<20 {
		t.Errorf("%d bytes went ahead of the reader", wrote)
	}
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestErrorInTheMiddleOfALogKeepsItsClassAndWhatCameBefore(t *testing.T) {
	fake := &fakeHost{readLog: func(_ context.Context, _ host.LogRequest, stdout, _ io.Writer) error {
		_, _ = io.WriteString(stdout, "so far")
		return fmt.Errorf("reading log file: %w", errdefs.ErrNotFound)
	}}
	l := connect(t, fake, nil)
	var got bytes.Buffer
	if err := l.client.ReadLog(t.Context(), host.LogRequest{}, &got, nil); !errdefs.IsNotFound(err) || got.String() != "so far" {
		t.Errorf("got %q, %v", got.String(), err)
	}
}
