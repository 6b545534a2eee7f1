// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

const (
	createdWeb = "Created spec.containers{web}: Container created"
	startedWeb = "Started spec.containers{web}: Container started"
)

// withHook is a bench whose container web has a postStart hook.
func withHook(t *testing.T, rt *fakecri.Runtime, containers string) *bench {
	t.Helper()
	b := newBench(rt, v1.RestartPolicyAlways, containers)
	mark(t, b.pod, "web:hook")
	return b
}

func (b *bench) awaits(t *testing.T, name string) bool {
	t.Helper()
	return b.syncer.AwaitsPostStart(b.pod, b.observe(t).Newest(name))
}

// publish shows the running containers in the API's status, as is done when none of their hooks is awaited.
func (b *bench) publish(t *testing.T) {
	t.Helper()
	b.pod = b.pod.DeepCopy()
	b.pod.Status.ContainerStatuses = nil
	for _, cs := range b.observe(t).Running() {
		b.pod.Status.ContainerStatuses = append(b.pod.Status.ContainerStatuses, v1.ContainerStatus{
			Name: cs.Name, ContainerID: cri.RuntimeName + "://" + cs.ID, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
		})
	}
}

func TestPostStartRunsOnceBeforeTheNextContainerStarts(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := withHook(t, rt, "web,side")
		b.hooks.plan["web"] = hookPlan{takes: 3 * time.Second}
		begin := time.Now()
		b.mustSync(t)
		if took := time.Since(begin); took < 3*time.Second {
			t.Errorf("the sync took %s and did not wait for the hook", took)
		}
		side := b.newest(t, "side")
		if after := side.StartedAt.Sub(b.newest(t, "web").StartedAt); after < 3*time.Second {
			t.Errorf("side started %s after web, before the hook ended", after)
		}
		for range 2 {
			if b.awaits(t, "web") {
				t.Error("the hook is awaited after it ended")
			}
			b.mustSync(t)
		}
		if !slices.Equal(b.hooks.begun, []string{"postStart web"}) || b.hooks.asked != 1 {
			t.Errorf("hooks %v, asked %d times", b.hooks.begun, b.hooks.asked)
		}
	})
}

func TestPostStartIsMadeUpForAfterTheProcessDied(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(b *bench)
		begun  int // before the process died
	}{
		"before the hook ran": {func(b *bench) { b.hooks.plan["web"] = hookPlan{err: errdefs.ErrUnavailable} }, 0},
		"while it ran":        {func(b *bench) { b.hooks.plan["web"] = hookPlan{takes: time.Hour} }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
				b := withHook(t, rt, "web")
				tc.before(b)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if r := b.syncer.Sync(ctx, b.pod, b.observe(t)); r.Err == nil {
					t.Fatal("no error")
				}
				b.wantRecords(t, "web/0 running")
				if len(b.hooks.begun) != tc.begun {
					t.Fatalf("hooks begun: %v", b.hooks.begun)
				}
				b.restart()
				if !b.awaits(t, "web") {
					t.Error("the hook is not awaited")
				}
				b.hooks.plan["web"] = hookPlan{}
				if r := b.sync(t); r.Err == nil || r.BackoffUntil.After(time.Now()) {
					t.Errorf("result %+v, want another sync at once to show that the container runs", r)
				}
				if b.awaits(t, "web") {
					t.Error("the hook is still awaited")
				}
				b.mustSync(t)
				if !slices.Equal(b.hooks.begun, []string{"postStart web"}) {
					t.Errorf("hooks begun: %v", b.hooks.begun)
				}
				b.wantRecords(t, "web/0 running")
			})
		})
	}
}

func TestPostStartOfAPublishedContainerIsNotAskedForAgain(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := withHook(t, rt, "web")
		b.mustSync(t)
		b.publish(t)
		b.restart()
		b.hooks.asked = 0
		b.mustSync(t)
		if b.hooks.asked != 0 || b.awaits(t, "web") {
			t.Errorf("the hook was asked for %d times", b.hooks.asked)
		}
		// The status still shows the container before: the next one has a hook of its own.
		b.exit(t, "web", 1)
		b.mustSync(t)
		if len(b.hooks.begun) != 2 {
			t.Errorf("hooks begun: %v", b.hooks.begun)
		}
	})
}

func TestFailedPostStartKillsTheContainer(t *testing.T) {
	const failed = "FailedPostStartHook spec.containers{web}: PostStartHook failed"
	const killing = "Killing spec.containers{web}: FailedPostStartHook"
	for _, tc := range []struct {
		name    string
		handler *v1.LifecycleHandler
		plan    hookPlan
		message string
		gone    bool
	}{
		{name: "exit code", plan: hookPlan{result: host.HookResult{ExitCode: 3, Output: "no\n"}}, message: "the hook ended with exit code 3: no"},
		{name: "interrupted", plan: hookPlan{result: host.HookResult{Interrupted: true, ExitCode: -1}}, message: "the hook was interrupted and its end is not known"},
		{name: "timed out", plan: hookPlan{result: host.HookResult{TimedOut: true, ExitCode: -1}}, message: "the hook was killed when its time was up"},
		{name: "refused", plan: hookPlan{err: errors.New("no shell")}, message: "no shell"},
		{name: "container gone", plan: hookPlan{err: errdefs.ErrFailedPrecondition}, message: "failed precondition", gone: true},
		{
			name: "tcpSocket", handler: &v1.LifecycleHandler{TCPSocket: &v1.TCPSocketAction{}},
			message: "lifecycle.postStart names no handler that can be run: use exec, httpGet or sleep",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
				b := withHook(t, rt, "web,side")
				if tc.handler != nil {
					b.pod.Spec.Containers[0].Lifecycle.PostStart = tc.handler
				}
				b.hooks.plan["web"] = tc.plan
				if r := b.sync(t); r.Err == nil {
					t.Error("no error")
				}
				want := []string{createdWeb, startedWeb, failed}
				if !tc.gone {
					want = append(want, killing)
				}
				want = append(want, "Created spec.containers{side}: Container created", "Started spec.containers{side}: Container started")
				b.wantEvents(t, want...)
				b.wantWaiting(t, "web", "PostStartHookError", tc.message)
				if got := b.newest(t, "web"); got.Alive != tc.gone {
					t.Errorf("web alive: %t", got.Alive)
				}
			})
		})
	}
}

func TestFailedPostStartIsToldOnceWhenTheKillIsRepeated(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := withHook(t, rt, "web")
		b.hooks.plan["web"] = hookPlan{result: host.HookResult{ExitCode: 1}}
		rt.Inject(fakecri.Fault{Method: "StopContainer", Err: errors.New("cannot"), Times: 1})
		b.sync(t)
		b.sync(t)
		b.wantRecords(t, "web/0 exited")
		n := 0
		for _, e := range b.events.take() {
			if e == "FailedPostStartHook spec.containers{web}: PostStartHook failed" {
				n++
			}
		}
		if n != 1 {
			t.Errorf("told %d times", n)
		}
	})
}

func TestDeletionAbandonsTheWaitForPostStart(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := withHook(t, rt, "web,side")
		b.hooks.plan["web"] = hookPlan{takes: time.Hour}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, cancel)
		begin := time.Now()
		r := b.syncer.Sync(ctx, b.pod, b.observe(t))
		if took := time.Since(begin); took != 5*time.Second || !errors.Is(r.Err, context.Canceled) {
			t.Errorf("returned after %s with %v", took, r.Err)
		}
		b.wantRecords(t, "web/0 running")
		b.wantEvents(t, createdWeb, startedWeb)
		b.wantWaiting(t, "web", "", "")
	})
}

func TestPostStartRequests(t *testing.T) {
	for _, tc := range []struct {
		name    string
		handler v1.LifecycleHandler
		check   func(r host.HookRequest) bool
	}{
		{"exec", v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"a", "$(B)"}}}, func(r host.HookRequest) bool {
			return cmp.Equal(r.Command, []string{"a", "$(B)"})
		}},
		{"sleep", v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 4}}, func(r host.HookRequest) bool {
			return r.Sleep != nil && *r.Sleep == 4*time.Second
		}},
		{"httpGet", v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(8080)}}, func(r host.HookRequest) bool {
			return r.HTTPGet != nil && r.HTTPGet.Port == 8080 && r.HTTPGet.Path == "/ready" && r.HTTPGet.Host != ""
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
				b := withHook(t, rt, "web")
				b.pod.Spec.Containers[0].Lifecycle.PostStart = &tc.handler
				b.mustSync(t)
				if len(b.hooks.requests) != 1 || !tc.check(b.hooks.requests[0]) {
					t.Fatalf("requests %+v", b.hooks.requests)
				}
				r := b.hooks.requests[0]
				if r.Kind != host.HookPostStart || r.Timeout != 0 || r.ContainerID != b.newest(t, "web").ID || r.PodUID != b.pod.UID {
					t.Errorf("request %+v", r)
				}
			})
		})
	}
}
