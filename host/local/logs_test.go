// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/host"
)

const testLog = `2026-05-01T12:00:00.000000001Z stdout F one
2026-05-01T12:00:01.000000001Z stderr F two
2026-05-01T12:00:02.000000001Z stdout P thr
2026-05-01T12:00:02.000000002Z stdout F ee
`

// safeBuffer is a buffer that one goroutine fills and another looks at.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

func logPath(h *Host, name string) string {
	return filepath.Join(h.logsDir, podLogDir(testPod), "main", name)
}

func TestReadLogSelects(t *testing.T) {
	h, _ := newTestHost(t)
	path := logPath(h, "0.log")
	put(t, path, testLog)
	all := host.LogRequest{Path: path, TailLines: -1, LimitBytes: -1}
	with := func(change func(*host.LogRequest)) host.LogRequest {
		req := all
		change(&req)
		return req
	}
	for name, test := range map[string]struct {
		req              host.LogRequest
		stdout, stderr   string
		noStdout, noErrs bool
	}{
		"all":            {req: all, stdout: "one\nthree\n", stderr: "two\n"},
		"tail":           {req: with(func(r *host.LogRequest) { r.TailLines = 2 }), stdout: "three\n"},
		"tail none":      {req: with(func(r *host.LogRequest) { r.TailLines = 0 })},
		"limit":          {req: with(func(r *host.LogRequest) { r.LimitBytes = 5 }), stdout: "one\n", stderr: "t"},
		"limit one side": {req: with(func(r *host.LogRequest) { r.LimitBytes = 5 }), noErrs: true, stdout: "one\nt"},
		"only stderr":    {req: all, noStdout: true, stderr: "two\n"},
		"since":          {req: with(func(r *host.LogRequest) { r.Since = time.Date(2026, 5, 1, 12, 0, 1, 0, time.UTC) }), stdout: "three\n", stderr: "two\n"},
		"timestamps": {req: with(func(r *host.LogRequest) { r.Timestamps = true; r.TailLines = 3 }),
			stderr: "2026-05-01T12:00:01.000000001Z two\n", stdout: "2026-05-01T12:00:02.000000001Z three\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			var err error
			switch {
			case test.noStdout:
				err = h.ReadLog(t.Context(), test.req, nil, &stderr)
			case test.noErrs:
				err = h.ReadLog(t.Context(), test.req, &stdout, nil)
			default:
				err = h.ReadLog(t.Context(), test.req, &stdout, &stderr)
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{test.stdout, test.stderr}, []string{stdout.String(), stderr.String()}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFollowedLogEndsAfterTheContainerAndIsComplete(t *testing.T) {
	h, rt := newTestHost(t)
	path := logPath(h, "0.log")
	put(t, path, testLog)
	var stdout, stderr safeBuffer
	done := make(chan error, 1)
	go func() {
		done <- h.ReadLog(t.Context(), host.LogRequest{Path: path, ContainerID: testContainer, Follow: true, TailLines: -1, LimitBytes: -1}, &stdout, &stderr)
	}()
	eventually(t, "the log so far", func() bool { return stdout.String() == "one\nthree\n" })
	rt.set(func(r *fakeRuntime) { r.err = errdefs.ErrUnavailable })
	add := func(line string) {
		file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(file, "2026-05-01T12:01:00.000000001Z stdout F %s\n", line); err != nil {
			t.Fatal(err)
		}
		_ = file.Close()
	}
	add("while the runtime is away")
	eventually(t, "what was written while the runtime was away", func() bool { return strings.HasSuffix(stdout.String(), "is away\n") })
	rt.set(func(r *fakeRuntime) { r.err, r.state = nil, runtimeapi.ContainerState_CONTAINER_EXITED })
	add("last")
	if err := <-done; err != nil {
		t.Error(err)
	}
	if !strings.HasSuffix(stdout.String(), "last\n") {
		t.Errorf("incomplete: %q", stdout.String())
	}
}

func TestFollowedLogEndsWithItsReader(t *testing.T) {
	h, _ := newTestHost(t)
	path := logPath(h, "0.log")
	put(t, path, testLog)
	ctx, cancel := context.WithCancel(t.Context())
	var stdout safeBuffer
	done := make(chan error, 1)
	go func() {
		done <- h.ReadLog(ctx, host.LogRequest{Path: path, ContainerID: testContainer, Follow: true, TailLines: -1, LimitBytes: -1}, &stdout, nil)
	}()
	eventually(t, "the log so far", func() bool { return stdout.String() != "" })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestLogPathsThatLeadElsewhereAreRefused(t *testing.T) {
	h, _ := newTestHost(t)
	outside := filepath.Join(t.TempDir(), "secret.log")
	put(t, outside, testLog)
	link := logPath(h, "0.log")
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(outside), filepath.Join(h.logsDir, "dir")); err != nil {
		t.Fatal(err)
	}
	record := filepath.Join(h.rootDir, "pods", testUID, "hooks", "x.json")
	put(t, record, "{}")
	for _, path := range []string{
		"", "0.log", outside, link, h.logsDir,
		filepath.Join(h.logsDir, "dir/secret.log"), h.logsDir + "/../logs/../../etc/passwd", h.logsDir + "x/0.log",
	} {
		var out bytes.Buffer
		err := h.ReadLog(t.Context(), host.LogRequest{Path: path, TailLines: -1, LimitBytes: -1}, &out, &out)
		if err == nil || out.Len() > 0 {
			t.Errorf("ReadLog %q: %v, %q", path, err, out.String())
		}
		if data, err := h.ReadTail(t.Context(), path, 100); err == nil {
			t.Errorf("ReadTail %q: %q", path, data)
		}
		if err := h.RemoveLogs(t.Context(), path); err == nil && path != link {
			t.Errorf("RemoveLogs %q: no error", path)
		}
	}
	for _, path := range []string{record, filepath.Join(h.rootDir, lockFile)} {
		if _, err := h.ReadTail(t.Context(), path, 100); !errdefs.IsPermissionDenied(err) {
			t.Errorf("ReadTail %q: %v", path, err)
		}
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("removed through a link: %v", err)
	}
}

func TestMissingLogIsNotFound(t *testing.T) {
	h, _ := newTestHost(t)
	path := logPath(h, "0.log")
	if err := h.ReadLog(t.Context(), host.LogRequest{Path: path}, nil, nil); !errdefs.IsNotFound(err) {
		t.Errorf("ReadLog: %v", err)
	}
	if _, err := h.ReadTail(t.Context(), path, 1); !errdefs.IsNotFound(err) {
		t.Errorf("ReadTail: %v", err)
	}
	if n, err := h.RestartCount(t.Context(), testPod, "main"); n != 0 || err != nil {
		t.Errorf("RestartCount: %d, %v", n, err)
	}
	if err := h.RemoveLogs(t.Context(), path); err != nil {
		t.Errorf("RemoveLogs: %v", err)
	}
}

func TestReadTailReturnsTheEnd(t *testing.T) {
	h, _ := newTestHost(t)
	path, err := h.EnsureTerminationLog(t.Context(), testUID, "main", 0)
	if err != nil {
		t.Fatal(err)
	}
	if data, err := h.ReadTail(t.Context(), path, 10); err != nil || len(data) != 0 {
		t.Errorf("empty file: %q, %v", data, err)
	}
	put(t, path, "abcdef")
	for limit, want := range map[int64]string{0: "", 2: "ef", 6: "abcdef", 100: "abcdef"} {
		if data, err := h.ReadTail(t.Context(), path, limit); err != nil || string(data) != want {
			t.Errorf("limit %d: %q, %v", limit, data, err)
		}
	}
	if _, err := h.ReadTail(t.Context(), path, -1); !errdefs.IsInvalidArgument(err) {
		t.Errorf("negative limit: %v", err)
	}
}

func TestReadTailDoesNotWaitOnAPipeOrReadADirectory(t *testing.T) {
	h, _ := newTestHost(t)
	path, err := h.EnsureTerminationLog(t.Context(), testUID, "main", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, filepath.Dir(path)} {
		if _, err := h.ReadTail(t.Context(), path, 10); err == nil {
			t.Errorf("%s: no error", path)
		}
	}
}

func TestRestartCountIsOneMoreThanTheHighestLog(t *testing.T) {
	h, _ := newTestHost(t)
	for _, name := range []string{"0.log", "2.log.20260501-120000.gz", "11.log.20260501-120000", "99.txt", "x.log", "-5.log", "50.logs", "4294967296.log"} {
		put(t, logPath(h, name), "")
	}
	if n, err := h.RestartCount(t.Context(), testPod, "main"); n != 12 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
}

func TestRemoveLogsRemovesOneRestart(t *testing.T) {
	h, _ := newTestHost(t)
	for _, name := range []string{"1.log", "1.log.20260501-120000", "1.log.20260501-110000.gz", "11.log", "0.log", "1.logs"} {
		put(t, logPath(h, name), "")
	}
	if err := h.RemoveLogs(t.Context(), logPath(h, "1.log")); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Dir(logPath(h, "x")))
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if diff := cmp.Diff([]string{"0.log", "1.logs", "11.log"}, left); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{"main", "1.log.gz", "x.log"} {
		if err := h.RemoveLogs(t.Context(), logPath(h, name)); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzBelow(f *testing.F) {
	for _, seed := range []string{"/logs/a", "/logs/../a", "/logs", "/logsx", "", "/logs/\x00", "/logs//a/./b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		rel, ok := below("/logs", path)
		if !ok {
			return
		}
		if joined := filepath.Join("/logs", rel); !strings.HasPrefix(joined, "/logs/") || joined != filepath.Clean(path) {
			t.Errorf("%q is %q below /logs", path, rel)
		}
	})
}

// FuzzReadLog reads files that a runtime or something else has written. Whatever is in them, the reader ends, and what it passes on
// is in the file.
func FuzzReadLog(f *testing.F) {
	for _, seed := range []string{
		"", "2026-05-01T12:00:00.5Z stdout F hello\n", "2026-05-01T12:00:00.5Z stderr P par\n2026-05-01T12:00:00.5Z stderr F tial\n",
		"2026-05-01T12:00:00.5Z stdout X:y hello\n", "2026-05-01 stdout F x\n", "\n\n", " stdout", "{\"log\":\"x\\n\",\"stream\":\"stdout\",\"time\":\"2026-05-01T12:00:00.5Z\"}\n", "\x00\xff",
	} {
		f.Add([]byte(seed), int64(-1), int64(-1), false)
		f.Add([]byte(seed), int64(1), int64(3), true)
	}
	dir := f.TempDir()
	h, err := New(Options{RootDir: filepath.Join(dir, "root"), PodLogsDir: filepath.Join(dir, "logs"), Runtime: newFakeRuntime()})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = h.Close(context.Background()) })
	path := filepath.Join(h.logsDir, "0.log")
	f.Fuzz(func(t *testing.T, content []byte, tailLines, limitBytes int64, timestamps bool) {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		var stdout, stderr bytes.Buffer
		err := h.ReadLog(t.Context(), host.LogRequest{Path: path, TailLines: tailLines, LimitBytes: limitBytes, Timestamps: timestamps}, &stdout, &stderr)
		if err == nil && stdout.Len()+stderr.Len() > 2*len(content)+64 {
			t.Errorf("%d bytes of a log of %d", stdout.Len()+stderr.Len(), len(content))
		}
		if limitBytes >= 0 && int64(stdout.Len()+stderr.Len()) > limitBytes {
			t.Errorf("%d bytes, at most %d were wanted", stdout.Len()+stderr.Len(), limitBytes)
		}
	})
}
