// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/host"
)

// pause is a hook that sleeps.
func pause(d, timeout time.Duration) host.HookRequest {
	req := hook(timeout)
	req.Command, req.Sleep = nil, &d
	return req
}

// get is a hook that asks a server.
func get(t *testing.T, server *httptest.Server) host.HookRequest {
	t.Helper()
	name, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	req := hook(20 * time.Second)
	req.Command = nil
	req.HTTPGet = &host.HTTPRequest{Scheme: "http", Host: name, Port: int32(n), Path: "/bye", Headers: []host.Header{{Name: "Authorization", Value: "secret"}}}
	return req
}

func TestPauseTakesItsTimeOnceAndIsJoined(t *testing.T) {
	hookTest(t, func(t *testing.T, h *Host, rt *fakeRuntime) {
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, err := h.RunHook(ctx, pause(10*time.Second, time.Minute)); err == nil {
			t.Fatal("ended early")
		}
		for range 2 { // joined, then on record
			got, err := h.RunHook(t.Context(), pause(10*time.Second, time.Minute))
			if diff := cmp.Diff(&host.HookResult{}, got); diff != "" || err != nil {
				t.Errorf("%v %s", err, diff)
			}
			if took := time.Since(begin); took != 10*time.Second {
				t.Errorf("took %s", took)
			}
		}
		if rt.ran() != 0 {
			t.Error("something was executed")
		}
	})
}

func TestPauseOfZeroEndsAtOnce(t *testing.T) {
	hookTest(t, func(t *testing.T, h *Host, _ *fakeRuntime) {
		begin := time.Now()
		if got, err := h.RunHook(t.Context(), pause(0, time.Minute)); err != nil || got.ExitCode != 0 || time.Since(begin) != 0 {
			t.Errorf("%+v, %v after %s", got, err, time.Since(begin))
		}
	})
}

func TestPauseThatALostProcessBeganIsInterrupted(t *testing.T) {
	hookTest(t, func(t *testing.T, h *Host, rt *fakeRuntime) {
		var wg sync.WaitGroup
		wg.Go(func() {
			if got, err := h.RunHook(t.Context(), pause(time.Hour, 0)); err != nil || !got.Interrupted {
				t.Errorf("%+v, %v", got, err)
			}
		})
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := h.Close(ctx); err != nil {
			t.Error(err)
		}
		wg.Wait()
		next := reopen(t, h, rt)
		if got, err := next.RunHook(t.Context(), pause(time.Hour, 0)); err != nil || !got.Interrupted {
			t.Errorf("after the restart: %+v, %v", got, err)
		}
		closeHost(t, next)
	})
}

func TestHookWithoutLimitMayTakeForEverUntilOneIsGiven(t *testing.T) {
	hookTest(t, func(t *testing.T, h *Host, rt *fakeRuntime) {
		rt.exec = exits(240*time.Hour, 5, "", "")
		begin := time.Now()
		if got, err := h.RunHook(t.Context(), hook(0)); err != nil || got.ExitCode != 5 || time.Since(begin) != 240*time.Hour {
			t.Errorf("%+v, %v after %s", got, err, time.Since(begin))
		}
		req := hook(0)
		req.Kind = host.HookPostStart
		var wg sync.WaitGroup
		wg.Go(func() {
			if got, err := h.RunHook(t.Context(), req); err != nil || !got.TimedOut {
				t.Errorf("first caller: %+v, %v", got, err)
			}
		})
		synctest.Wait()
		begin = time.Now()
		limited := req
		limited.Timeout = 2 * time.Second
		if got, err := h.RunHook(t.Context(), limited); err != nil || !got.TimedOut || time.Since(begin) != 2*time.Second {
			t.Errorf("%+v, %v after %s", got, err, time.Since(begin))
		}
		wg.Wait()
	})
}

func TestHookWithALimitKeepsItWhenACallHasNone(t *testing.T) {
	hookTest(t, func(t *testing.T, h *Host, rt *fakeRuntime) {
		rt.exec = exits(time.Hour, 0, "", "")
		begin := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = h.RunHook(t.Context(), hook(3*time.Second)) })
		synctest.Wait()
		if got, err := h.RunHook(t.Context(), hook(0)); err != nil || !got.TimedOut || time.Since(begin) != 3*time.Second {
			t.Errorf("%+v, %v after %s", got, err, time.Since(begin))
		}
		wg.Wait()
	})
}

// TestHookEndsWithItsContainer is B07: nobody waits for a hook whose container is gone.
func TestHookEndsWithItsContainer(t *testing.T) {
	for name, end := range map[string]func(*fakeRuntime){
		"exited":  func(r *fakeRuntime) { r.state = runtimeapi.ContainerState_CONTAINER_EXITED },
		"removed": func(r *fakeRuntime) { r.err = errdefs.ErrNotFound },
	} {
		for kind, req := range map[string]host.HookRequest{"exec": hook(0), "sleep": pause(time.Hour, 10*time.Minute)} {
			t.Run(name+" "+kind, func(t *testing.T) {
				hookTest(t, func(t *testing.T, h *Host, rt *fakeRuntime) {
					rt.exec = exits(time.Hour, 0, "", "")
					begin := time.Now()
					time.AfterFunc(5500*time.Millisecond, func() { rt.set(end) })
					want := &host.HookResult{ExitCode: -1, Output: "the container ended before its hook did", ContainerEnded: true}
					got, err := h.RunHook(t.Context(), req)
					if diff := cmp.Diff(want, got); diff != "" || err != nil {
						t.Errorf("%v %s", err, diff)
					}
					if took := time.Since(begin); took != 6*time.Second {
						t.Errorf("took %s", took)
					}
					if again, err := h.RunHook(t.Context(), req); err != nil || cmp.Diff(want, again) != "" {
						t.Errorf("on record: %+v, %v", again, err)
					}
				})
			})
		}
	}
}

func TestHookGoesOnWhileTheRuntimeDoesNotSayThatTheContainerEnded(t *testing.T) {
	for name, change := range map[string]func(*fakeRuntime){
		"unreachable": func(r *fakeRuntime) { r.err = errdefs.ErrUnavailable },
		"unknown":     func(r *fakeRuntime) { r.state = runtimeapi.ContainerState_CONTAINER_UNKNOWN },
	} {
		t.Run(name, func(t *testing.T) {
			hookTest(t, func(t *testing.T, h *Host, rt *fakeRuntime) {
				time.AfterFunc(time.Second/2, func() { rt.set(change) })
				if got, err := h.RunHook(t.Context(), pause(10*time.Second, time.Minute)); err != nil || got.ExitCode != 0 {
					t.Errorf("%+v, %v", got, err)
				}
			})
		})
	}
}

func TestRequestIsMadeOnceAndRecordedWithoutItsHeaders(t *testing.T) {
	var calls atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(server.Close)
	h, _ := newTestHost(t)
	req := get(t, server)
	for range 2 {
		got, err := h.RunHook(t.Context(), req)
		if diff := cmp.Diff(&host.HookResult{}, got); diff != "" || err != nil {
			t.Errorf("%v %s", err, diff)
		}
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls", n)
	}
	key := hookKey{uid: testUID, containerID: testContainer, kind: "preStop"}
	data, err := os.ReadFile(filepath.Join(h.rootDir, key.path()))
	if err != nil || strings.Contains(string(data), "secret") {
		t.Errorf("record %s, %v", data, err)
	}
}

func TestFallbackToHTTPIsToldAndRecorded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	h, rt := newTestHost(t)
	req := get(t, server)
	req.HTTPGet.Scheme = "https"
	want := &host.HookResult{HTTPFallback: true}
	got, err := h.RunHook(t.Context(), req)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	closeHost(t, h)
	next := reopen(t, h, rt)
	t.Cleanup(func() { closeHost(t, next) })
	got, err = next.RunHook(t.Context(), req)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("after the restart: %v %s", err, diff)
	}
}

func TestRequestThatIsNotAnsweredEndsWhenItsTimeIsUp(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	h, _ := newTestHost(t)
	req := get(t, server)
	req.Timeout = 50 * time.Millisecond
	got, err := h.RunHook(t.Context(), req)
	if diff := cmp.Diff(&host.HookResult{ExitCode: -1, TimedOut: true}, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}

func TestRequestThatCannotBeMadeSaysWhy(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	h, _ := newTestHost(t)
	got, err := h.RunHook(t.Context(), get(t, server))
	if err != nil || got.ExitCode != -1 || got.Interrupted || !strings.Contains(got.Output, "connection refused") {
		t.Errorf("%+v, %v", got, err)
	}
	if again, err := h.RunHook(t.Context(), hook(time.Second)); err != nil || cmp.Diff(got, again) != "" {
		t.Errorf("on record: %+v, %v", again, err)
	}
}
