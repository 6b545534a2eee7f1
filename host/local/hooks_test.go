// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/host"
)

func hook(timeout time.Duration) host.HookRequest {
	return host.HookRequest{PodUID: testUID, ContainerID: testContainer, Kind: "preStop", Command: []string{"sh", "-c", "true"}, Timeout: timeout}
}

// exits is an exec that ends after a time, or with its context.
func exits(after time.Duration, code int32, stdout, stderr string) func(context.Context) (*runtimeapi.ExecSyncResponse, error) {
	return func(ctx context.Context) (*runtimeapi.ExecSyncResponse, error) {
		select {
		case <-time.After(after):
			return &runtimeapi.ExecSyncResponse{ExitCode: code, Stdout: []byte(stdout), Stderr: []byte(stderr)}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// hookTest runs a test in time of its own.
func hookTest(t *testing.T, test func(t *testing.T, h *Host, rt *fakeRuntime)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h, rt := newTestHost(t)
		test(t, h, rt)
		closeHost(t, h)
	})
}

func TestHookRunsOnceAndItsResultIsRepeated(t *testing.T) {
	hookTest(t, func(t *testing.T, h *Host, rt *fakeRuntime) {
		rt.exec = exits(3*time.Second, 7, "out", "err")
		want := &host.HookResult{ExitCode: 7, Output: "outerr"}
		for range 3 {
			got, err := h.RunHook(t.Context(), hook(10*time.Second))
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%v %s", err, diff)
			}
		}
		if rt.ran() != 1 {
			t.Errorf("ran %d times", rt.ran())
		}
	})
}

func TestHookResultOutlivesTheProcess(t *testing.T) {
	hookTest(t, func(t *testing.T, h *Host, rt *fakeRuntime) {
		rt.exec = exits(time.Second, 3, "bye", "")
		want, err := h.RunHook(t.Context(), hook(10*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		closeHost(t, h)
		next := reopen(t, h, rt)
		got, err := next.RunHook(t.Context(), hook(10*time.Second))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v %s", err, diff)
		}
		if rt.ran() != 1 {
			t.Errorf("ran %d times", rt.ran())
		}
		closeHost(t, next)
	})
}

// reopen starts the host process again.
func reopen(t *testing.T, h *Host, rt *fakeRuntime) *Host {
	t.Helper()
	next, err := New(Options{RootDir: h.rootDir, PodLogsDir: h.logsDir, Runtime: rt})
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func TestHookThatWasBegunBeforeACrashIsNotBegunAgain(t *testing.T) {
	key := hookKey{uid: testUID, containerID: testContainer, kind: "preStop"}
	for name, crash := range map[string]func(t *testing.T, h *Host){
		"record says begun": func(t *testing.T, h *Host) {
			if err := h.writeHookRecord(key, &hookRecord{BegunAt: time.Now()}); err != nil {
				t.Fatal(err)
			}
		},
		"record is garbage": func(t *testing.T, h *Host) {
			put(t, filepath.Join(h.rootDir, key.path()), "{\"command\":")
		},
		"record is empty": func(t *testing.T, h *Host) {
			put(t, filepath.Join(h.rootDir, key.path()), "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			hookTest(t, func(t *testing.T, h *Host, rt *fakeRuntime) {
				crash(t, h)
				got, err := h.RunHook(t.Context(), hook(10*time.Second))
				if diff := cmp.Diff(&host.HookResult{ExitCode: -1, Interrupted: true}, got); diff != "" || err != nil {
					t.Errorf("%v %s", err, diff)
				}
				if rt.ran() != 0 {
					t.Error("ran again")
				}
			})
		})
	}
}

func TestCrashBetweenRecordAndRenameLeavesTheHookUnbegun(t *testing.T) {
	hookTest(t, func(t *testing.T, h *Host, rt *fakeRuntime) {
		key := hookKey{uid: testUID, containerID: testContainer, kind: "preStop"}
		put(t, filepath.Join(h.rootDir, key.path()+".new"), "{")
		rt.exec = exits(0, 0, "", "")
		if got, err := h.RunHook(t.Context(), hook(time.Second)); err != nil || got.Interrupted {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestHookIsRecordedBeforeItBegins(t *testing.T) {
	hookTest(t, func(t *testing.T, h *Host, rt *fakeRuntime) {
		path := filepath.Join(h.rootDir, hookKey{uid: testUID, containerID: testContainer, kind: "preStop"}.path())
		rt.exec = func(context.Context) (*runtimeapi.ExecSyncResponse, error) {
			data, err := os.ReadFile(path)
			if err != nil || strings.Contains(string(data), "endedAt") {
				t.Errorf("record while it runs: %q, %v", data, err)
			}
			return &runtimeapi.ExecSyncResponse{}, nil
		}
		if _, err := h.RunHook(t.Context(), hook(time.Second)); err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(path); err != nil || !strings.Contains(string(data), "endedAt") {
			t.Errorf("record after it: %q, %v", data, err)
		}
	})
}

func TestHookThatCannotBeRecordedIsNotBegun(t *testing.T) {
	hookTest(t, func(t *testing.T, h *Host, rt *fakeRuntime) {
		put(t, filepath.Join(h.rootDir, podDir(testUID)), "a file where the directory should be")
		if _, err := h.RunHook(t.Context(), hook(time.Second)); err == nil || rt.ran() != 0 {
			t.Errorf("ran %d times, %v", rt.ran(), err)
		}
		if err := os.Remove(filepath.Join(h.rootDir, podDir(testUID))); err != nil {
			t.Fatal(err)
		}
		rt.exec = exits(0, 0, "", "")
		if _, err := h.RunHook(t.Context(), hook(time.Second)); err != nil {
			t.Errorf("after the disk is well again: %v", err)
		}
	})
}

func TestHookWhoseEndCannotBeRecordedIsRememberedAndNotRunAgain(t *testing.T) {
	hookTest(t, func(t *testing.T, h *Host, rt *fakeRuntime) {
		rt.exec = func(context.Context) (*runtimeapi.ExecSyncResponse, error) {
			// The disk becomes read-only, or full, while the hook runs.
			dir := filepath.Join(h.rootDir, podDir(testUID))
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
			put(t, dir, "")
			return &runtimeapi.ExecSyncResponse{ExitCode: 4}, nil
		}
		for range 2 {
			if got, err := h.RunHook(t.Context(), hook(time.Second)); err != nil || got.ExitCode != 4 {
				t.Errorf("%+v, %v", got, err)
			}
		}
		if rt.ran() != 1 {
			t.Errorf("ran %d times", rt.ran())
		}
	})
}

func TestCallerThatGoesAwayLeavesTheHookRunning(t *testing.T) {
	hookTest(t, func(t *testing.T, h *Host, rt *fakeRuntime) {
		rt.exec = exits(5*time.Second, 0, "done", "")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := h.RunHook(ctx, hook(20*time.Second)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		begin := time.Now()
		got, err := h.RunHook(t.Context(), hook(20*time.Second))
		if err != nil || got.Output != "done" || rt.ran() != 1 {
			t.Errorf("%+v, %v, ran %d times", got, err, rt.ran())
		}
		if took := time.Since(begin); took != 4*time.Second {
			t.Errorf("joined for %s", took)
		}
	})
}

func TestHookIsEndedWhenItsTimeIsUp(t *testing.T) {
	hookTest(t, func(t *testing.T, h *Host, rt *fakeRuntime) {
		rt.exec = exits(time.Hour, 0, "", "")
		begin := time.Now()
		got, err := h.RunHook(t.Context(), hook(3*time.Second))
		if diff := cmp.Diff(&host.HookResult{ExitCode: -1, TimedOut: true}, got); diff != "" || err != nil {
			t.Errorf("%v %s", err, diff)
		}
		if took := time.Since(begin); took != 3*time.Second {
			t.Errorf("took %s", took)
		}
		again, err := h.RunHook(t.Context(), hook(3*time.Second))
		if diff := cmp.Diff(got, again); diff != "" || err != nil || rt.ran() != 1 {
			t.Errorf("again: %v %s", err, diff)
		}
	})
}

func TestSecondCallShortensAndNeverLengthensTheTime(t *testing.T) {
	hookTest(t, func(t *testing.T, h *Host, rt *fakeRuntime) {
		rt.exec = exits(time.Hour, 0, "", "")
		begin := time.Now()
		var wg sync.WaitGroup
		call := func(timeout time.Duration) {
			wg.Go(func() {
				if got, err := h.RunHook(t.Context(), hook(timeout)); err != nil || !got.TimedOut {
					t.Errorf("%+v, %v", got, err)
				}
			})
			synctest.Wait()
		}
		call(30 * time.Second)
		time.Sleep(time.Second)
		call(60 * time.Second) // no effect
		call(10 * time.Second) // ends at 11 s
		time.Sleep(time.Second)
		call(2 * time.Second) // ends at 4 s
		wg.Wait()
		if took := time.Since(begin); took != 4*time.Second {
			t.Errorf("ended after %s", took)
		}
		if rt.ran() != 1 {
			t.Errorf("ran %d times", rt.ran())
		}
	})
}

func TestHooksOfOtherContainersAndKindsAreTheirOwn(t *testing.T) {
	hookTest(t, func(t *testing.T, h *Host, rt *fakeRuntime) {
		rt.exec = exits(time.Second, 0, "", "")
		others := []func(*host.HookRequest){
			func(*host.HookRequest) {},
			func(r *host.HookRequest) { r.ContainerID = "c0ffee2" },
			func(r *host.HookRequest) { r.Kind = "postStart" },
			func(r *host.HookRequest) { r.PodUID = "other" },
		}
		begin := time.Now()
		var wg sync.WaitGroup
		for _, change := range others {
			req := hook(10 * time.Second)
			change(&req)
			wg.Go(func() {
				if _, err := h.RunHook(t.Context(), req); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if rt.ran() != len(others) || time.Since(begin) != time.Second {
			t.Errorf("ran %d in %s", rt.ran(), time.Since(begin))
		}
	})
}

func TestHookOfAContainerThatDoesNotRunIsNotBegun(t *testing.T) {
	hookTest(t, func(t *testing.T, h *Host, rt *fakeRuntime) {
		rt.exec = exits(0, 0, "", "")
		rt.set(func(r *fakeRuntime) { r.state = runtimeapi.ContainerState_CONTAINER_EXITED })
		if _, err := h.RunHook(t.Context(), hook(time.Second)); !errdefs.IsFailedPrecondition(err) {
			t.Errorf("exited: %v", err)
		}
		for _, class := range []error{errdefs.ErrUnavailable, errdefs.ErrNotFound} {
			rt.set(func(r *fakeRuntime) { r.err = class })
			if _, err := h.RunHook(t.Context(), hook(time.Second)); !errors.Is(err, class) {
				t.Errorf("got %v, want %v", err, class)
			}
		}
		if rt.ran() != 0 {
			t.Errorf("ran %d times", rt.ran())
		}
		rt.set(func(r *fakeRuntime) { r.err, r.state = nil, runtimeapi.ContainerState_CONTAINER_RUNNING })
		if _, err := h.RunHook(t.Context(), hook(time.Second)); err != nil || rt.ran() != 1 {
			t.Errorf("once it runs: %v, ran %d times", err, rt.ran())
		}
	})
}

func TestHowAnExecEndsIsTold(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want host.HookResult
	}{
		"program is missing": {errors.New("exec failed: no such file"), host.HookResult{ExitCode: -1, Output: "exec failed: no such file"}},
		"runtime died":       {errdefs.ErrUnavailable, host.HookResult{ExitCode: -1, Output: "unavailable", Interrupted: true}},
	} {
		t.Run(name, func(t *testing.T) {
			hookTest(t, func(t *testing.T, h *Host, rt *fakeRuntime) {
				rt.exec = func(context.Context) (*runtimeapi.ExecSyncResponse, error) { return nil, test.err }
				for range 2 {
					got, err := h.RunHook(t.Context(), hook(time.Second))
					if diff := cmp.Diff(&test.want, got); diff != "" || err != nil {
						t.Errorf("%v %s", err, diff)
					}
				}
				if rt.ran() != 1 {
					t.Errorf("ran %d times", rt.ran())
				}
			})
		})
	}
}

func TestHookThatDiesWithItsContainerSaysSo(t *testing.T) {
	for name, exec := range map[string]func(context.Context) (*runtimeapi.ExecSyncResponse, error){
		"killed":    exits(0, 137, "", ""),
		"no answer": func(context.Context) (*runtimeapi.ExecSyncResponse, error) { return nil, errors.New("task is gone") },
	} {
		for _, ended := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, container ended %t", name, ended), func(t *testing.T) {
				hookTest(t, func(t *testing.T, h *Host, rt *fakeRuntime) {
					rt.exec = func(ctx context.Context) (*runtimeapi.ExecSyncResponse, error) {
						if ended {
							rt.set(func(r *fakeRuntime) { r.state = runtimeapi.ContainerState_CONTAINER_EXITED })
						}
						return exec(ctx)
					}
					for range 2 {
						got, err := h.RunHook(t.Context(), hook(time.Second))
						if err != nil || got.ContainerEnded != ended || got.ExitCode == 0 {
							t.Errorf("%+v, %v", got, err)
						}
					}
				})
			})
		}
	}
}

func TestHookOfAnEndedContainerRunsOnceAndNeverLooksAtIt(t *testing.T) {
	hookTest(t, func(t *testing.T, h *Host, rt *fakeRuntime) {
		rt.set(func(r *fakeRuntime) { r.err = errdefs.ErrNotFound })
		req := pause(3*time.Second, 10*time.Second)
		req.Kind = host.HookPreStopOnExit
		begin := time.Now()
		for range 2 {
			got, err := h.RunHook(t.Context(), req)
			if diff := cmp.Diff(&host.HookResult{}, got); diff != "" || err != nil {
				t.Errorf("%v %s", err, diff)
			}
		}
		if took := time.Since(begin); took != 3*time.Second {
			t.Errorf("took %s", took)
		}
		req.Command, req.Sleep = []string{"true"}, nil
		if _, err := h.RunHook(t.Context(), req); !errdefs.IsInvalidArgument(err) {
			t.Errorf("a command: %v", err)
		}
	})
}

func TestJoinOnlyAnswersForARunAndBeginsNone(t *testing.T) {
	hookTest(t, func(t *testing.T, h *Host, rt *fakeRuntime) {
		rt.exec = exits(3*time.Second, 7, "", "")
		question := host.HookRequest{PodUID: testUID, ContainerID: testContainer, Kind: host.HookPreStop, JoinOnly: true}
		if _, err := h.RunHook(t.Context(), question); !errdefs.IsNotFound(err) {
			t.Errorf("before: %v", err)
		}
		begun := make(chan struct{})
		go func() { defer close(begun); _, _ = h.RunHook(t.Context(), hook(time.Minute)) }()
		synctest.Wait()
		begin := time.Now()
		for _, when := range []string{"meanwhile", "after"} {
			got, err := h.RunHook(t.Context(), question)
			if err != nil || got.ExitCode != 7 || time.Since(begin) != 3*time.Second {
				t.Errorf("%s: %+v, %v after %s", when, got, err, time.Since(begin))
			}
		}
		<-begun
		if rt.ran() != 1 {
			t.Errorf("ran %d times", rt.ran())
		}
	})
}

func TestHookOutputIsCutAndValid(t *testing.T) {
	hookTest(t, func(t *testing.T, h *Host, rt *fakeRuntime) {
		rt.exec = exits(0, 0, strings.Repeat("ä", maxHookOutput)+"\xff", "err")
		got, err := h.RunHook(t.Context(), hook(time.Second))
		if err != nil || got.Output != strings.Repeat("ä", maxHookOutput/2) {
			t.Errorf("%d bytes, %v", len(got.Output), err)
		}
	})
}

func TestCloseWaitsForHooksAndThenEndsThem(t *testing.T) {
	hookTest(t, func(t *testing.T, h *Host, rt *fakeRuntime) {
		rt.exec = exits(10*time.Second, 0, "", "")
		var wg sync.WaitGroup
		wg.Go(func() {
			if got, err := h.RunHook(t.Context(), hook(time.Minute)); err != nil || !got.Interrupted {
				t.Errorf("%+v, %v", got, err)
			}
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		begin := time.Now()
		if err := h.Close(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took != 3*time.Second {
			t.Errorf("closed after %s", took)
		}
		wg.Wait()
		next := reopen(t, h, rt)
		if got, err := next.RunHook(t.Context(), hook(time.Minute)); err != nil || !got.Interrupted || rt.ran() != 1 {
			t.Errorf("after the restart: %+v, %v, ran %d times", got, err, rt.ran())
		}
		closeHost(t, next)
	})
}

func TestCloseLetsAShortHookEnd(t *testing.T) {
	hookTest(t, func(t *testing.T, h *Host, rt *fakeRuntime) {
		rt.exec = exits(time.Second, 5, "", "")
		var wg sync.WaitGroup
		wg.Go(func() {
			if got, err := h.RunHook(t.Context(), hook(time.Minute)); err != nil || got.ExitCode != 5 {
				t.Errorf("%+v, %v", got, err)
			}
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := h.Close(ctx); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if _, err := h.RunHook(t.Context(), hook(time.Minute)); !errdefs.IsUnavailable(err) {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestRemovePodWaitsForItsHooks(t *testing.T) {
	hookTest(t, func(t *testing.T, h *Host, rt *fakeRuntime) {
		rt.exec = exits(5*time.Second, 0, "", "")
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := h.RunHook(t.Context(), hook(time.Minute)); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		if err := h.RemovePod(t.Context(), testUID, false); !errdefs.IsFailedPrecondition(err) {
			t.Errorf("while a hook runs: %v", err)
		}
		if err := h.RemovePod(t.Context(), "other", false); err != nil {
			t.Errorf("another pod: %v", err)
		}
		wg.Wait()
		if err := h.RemovePod(t.Context(), testUID, false); err != nil {
			t.Errorf("after it: %v", err)
		}
	})
}

func TestBadHookRequestsAreRefused(t *testing.T) {
	h, _ := newTestHost(t)
	for name, change := range map[string]func(*host.HookRequest){
		"kind":    func(r *host.HookRequest) { r.Kind = "../preStop" },
		"command": func(r *host.HookRequest) { r.Command = nil },
		"timeout": func(r *host.HookRequest) { r.Timeout = -1 },
		"one of":  func(r *host.HookRequest) { r.Sleep = ptr.To(time.Second) },
		"sleep":   func(r *host.HookRequest) { r.Command, r.Sleep = nil, ptr.To(-time.Second) },
		"scheme":  func(r *host.HookRequest) { r.Command, r.HTTPGet = nil, &host.HTTPRequest{Host: "h", Port: 1} },
		"host":    func(r *host.HookRequest) { r.Command, r.HTTPGet = nil, &host.HTTPRequest{Scheme: "http", Port: 1} },
		"port 0":  func(r *host.HookRequest) { r.Command, r.HTTPGet = nil, &host.HTTPRequest{Scheme: "http", Host: "h"} },
	} {
		req := hook(time.Second)
		change(&req)
		if _, err := h.RunHook(t.Context(), req); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
