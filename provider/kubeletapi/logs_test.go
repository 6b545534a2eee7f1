// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
)

func TestLogsOfEveryKindOfContainer(t *testing.T) {
	b := newBed(t, func(b *bed, o *Options) {
		o.PodLogsDir = func() string { return "/pods" }
		o.HostTime = func() time.Time { return now }
		b.logs.log = func(_ context.Context, req host.LogRequest, stdout, stderr io.Writer) error {
			_, _ = fmt.Fprintf(stdout, "%s of %s", req.Path, req.ContainerID)
			_, _ = fmt.Fprintf(stderr, " tail %d since %s", req.TailLines, req.Since.Format(time.TimeOnly))
			return nil
		}
	})
	forgotten := cri.LogDirectory("/pods", b.view.pods[0]) + "/" + cri.ContainerLogPath("app", 0)
	tests := []struct{ path, want string }{
		{"/containerLogs/ns/web/app", "/logs/app/1.log of c-app tail -1 since 00:00:00"},
		{"/containerLogs/ns/web/app?tailLines=0&sinceSeconds=7", "/logs/app/1.log of c-app tail 0 since 05:06:00"},
		{"/containerLogs/ns/web/setup", "/logs/setup/0.log of c-setup tail -1 since 00:00:00"},
		// The runtime has no record of the previous run any more.
		{"/containerLogs/ns/web/app?previous=true", forgotten + " of c-app-0 tail -1 since 00:00:00"},
	}
	for _, test := range tests {
		if code, body := b.get(t, test.path); code != http.StatusOK || body != test.want {
			t.Errorf("%s: %d %q, want %q", test.path, code, body, test.want)
		}
	}
}

func TestTheComputedStatusIsNewerThanTheAPIs(t *testing.T) {
	b := newBed(t, func(b *bed, _ *Options) {
		b.view.statuses["uid-web"] = v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{
			Name: "app", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ErrImagePull"}},
		}}}
	})
	code, body := b.get(t, "/containerLogs/ns/web/app")
	if code != http.StatusBadRequest || body != `container "app" in pod "web" is waiting to start: image can't be pulled` {
		t.Errorf("got %d %q", code, body)
	}
}

func TestLogsThatCannotBeShown(t *testing.T) {
	down := fmt.Errorf("%w: the link to the host is down since 12:00", errdefs.ErrUnavailable)
	tests := []struct {
		desc, path string
		change     func(*bed, *Options)
		code       int
		text       string
	}{
		{desc: "unknown pod", path: "ns/nope/app", code: http.StatusNotFound, text: `pod "nope" does not exist`},
		{desc: "wrong namespace", path: "other/web/app", code: http.StatusNotFound, text: `pod "web" does not exist`},
		{desc: "unknown container", path: "ns/web/nope", code: http.StatusNotFound, text: `container "nope" not found in pod "web"`},
		{desc: "options", path: "ns/web/app?tailLines=-1", code: http.StatusUnprocessableEntity, text: "tailLines"},
		{desc: "options come first", path: "ns/nope/app?tailLines=x", code: http.StatusBadRequest, text: "tailLines"},
		{
			desc: "no previous run", path: "ns/web/tty?previous=true", code: http.StatusBadRequest,
			text: `previous terminated container "tty" in pod "web" not found`,
		},
		{
			desc: "the file is gone", path: "ns/web/app", code: http.StatusBadRequest,
			change: func(b *bed, _ *Options) {
				b.logs.tail = func(context.Context, string) error { return errdefs.ErrNotFound }
			},
			text: "unable to retrieve container logs for containerd://c-app",
		},
		{
			desc: "forgotten by the runtime, and where logs are is not known yet", path: "ns/web/app?previous=true",
			code: http.StatusBadRequest, text: "unable to retrieve container logs for containerd://c-app-0",
		},
		{
			desc: "the host is cut off", path: "ns/web/app", code: http.StatusInternalServerError,
			change: func(b *bed, _ *Options) { b.logs.tail = func(context.Context, string) error { return down } },
			text:   "the link to the host is down since 12:00",
		},
		{
			desc: "the host is cut off before anything was observed", path: "ns/web/app", code: http.StatusInternalServerError,
			change: func(b *bed, _ *Options) { b.view.failed["uid-web"] = down },
			text:   "the link to the host is down since 12:00",
		},
		{
			desc: "the host does not answer", path: "ns/web/app?follow=true", code: http.StatusInternalServerError,
			change: func(b *bed, o *Options) {
				o.CallTimeout = 10 * time.Millisecond
				b.logs.tail = func(ctx context.Context, _ string) error {
					<-ctx.Done()
					return ctx.Err()
				}
			},
			text: "did not answer within 10ms",
		},
		{
			desc: "the file cannot be read", path: "ns/web/app", code: http.StatusBadRequest,
			change: func(b *bed, _ *Options) {
				b.logs.log = func(context.Context, host.LogRequest, io.Writer, io.Writer) error { return errors.New("bad sector") }
			},
			text: "bad sector",
		},
	}
	for _, test := range tests {
		t.Run(test.desc, func(t *testing.T) {
			b := newBed(t, test.change)
			code, body := b.get(t, "/containerLogs/"+test.path)
			if code != test.code || !strings.Contains(body, test.text) {
				t.Errorf("got %d %q, want %d and %q in it", code, body, test.code, test.text)
			}
		})
	}
}

func TestAFollowedLogArrivesChunkByChunk(t *testing.T) {
	lines := make(chan string)
	b := newBed(t, func(b *bed, _ *Options) {
		b.logs.log = func(_ context.Context, req host.LogRequest, stdout, _ io.Writer) error {
			if !req.Follow {
				return errors.New("not following")
			}
			for line := range lines {
				if _, err := io.WriteString(stdout, line); err != nil {
					return err
				}
			}
			return nil
		}
	})
	// The header comes before the first line.
	resp, err := b.client(t, "admin", nil).Get(b.url + "/containerLogs/ns/web/app?follow=true")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	read := bufio.NewReader(resp.Body)
	for _, line := range []string{"one\n", "two\n"} {
		lines <- line
		if got, err := read.ReadString('\n'); got != line || err != nil {
			t.Fatalf("got %q, %v; want %q", got, err, line)
		}
	}
	close(lines)
	if rest, err := io.ReadAll(read); len(rest) != 0 || err != nil {
		t.Errorf("after the end: %q, %v", rest, err)
	}
}

func TestAnEmptyLogIsNoError(t *testing.T) {
	b := newBed(t, func(b *bed, _ *Options) {
		b.logs.log = func(context.Context, host.LogRequest, io.Writer, io.Writer) error { return nil }
	})
	if code, body := b.get(t, "/containerLogs/ns/web/app?tailLines=0"); code != http.StatusOK || body != "" {
		t.Errorf("got %d %q", code, body)
	}
}

func TestALogThatIsCutOffDoesNotLookComplete(t *testing.T) {
	b := newBed(t, func(b *bed, _ *Options) {
		b.logs.log = func(_ context.Context, _ host.LogRequest, stdout, _ io.Writer) error {
			_, _ = io.WriteString(stdout, "half")
			return errdefs.ErrUnavailable
		}
	})
	resp, err := b.client(t, "admin", nil).Get(b.url + "/containerLogs/ns/web/app")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if body, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("read %q to the end without an error", body)
	}
}

func TestALogEndsWithItsClient(t *testing.T) {
	for _, test := range []struct {
		desc string
		end  func(b *bed, client context.CancelFunc)
	}{
		{"the client goes away", func(_ *bed, client context.CancelFunc) { client() }},
		{"the server ends", func(b *bed, _ context.CancelFunc) { b.stop() }},
	} {
		t.Run(test.desc, func(t *testing.T) {
			reading, ended := make(chan struct{}), make(chan error, 1)
			b := newBed(t, func(b *bed, _ *Options) {
				b.logs.log = func(ctx context.Context, _ host.LogRequest, _, _ io.Writer) error {
					close(reading)
					<-ctx.Done()
					ended <- ctx.Err()
					return ctx.Err()
				}
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+"/containerLogs/ns/web/app?follow=true", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := b.client(t, "admin", nil).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			<-reading
			test.end(b, cancel)
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("reading ended with %v", err)
			}
		})
	}
}
