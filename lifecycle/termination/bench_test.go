// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package termination

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

const (
	podUID  = types.UID("uid-1")
	podName = "shop"
)

// bench is a runtime with one pod and a Terminator, on the clock of a synctest bubble.
type bench struct {
	rt     *fakecri.Runtime
	hooks  *fakeHooks
	events *events
	term   *Terminator
	pod    *v1.Pod
	seeded fakecri.Seeded
}

// newBench seeds a pod with the containers; those of withHook have a preStop hook.
func newBench(rt *fakecri.Runtime, graceSeconds int64, withHook map[string]bool, containers ...string) *bench {
	b := &bench{rt: rt, hooks: newFakeHooks(), events: &events{}}
	b.pod = &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: podName, UID: podUID},
		Spec:       v1.PodSpec{TerminationGracePeriodSeconds: &graceSeconds},
	}
	for _, name := range containers {
		c := v1.Container{Name: name}
		if withHook[name] {
			c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"bye", name}}}}
		}
		b.pod.Spec.Containers = append(b.pod.Spec.Containers, c)
	}
	b.seeded = rt.Seed(fakecri.Pod{UID: podUID, Name: podName, Containers: containers})
	b.restart()
	return b
}

// restart is what happens to the Terminator when its process dies.
func (b *bench) restart() {
	b.term = New(Options{Runtime: b.rt.Client(), Hooks: b.hooks, Clock: clock.RealClock{}, Recorder: b.events})
}

// killPod observes and kills, as a pod worker does.
func (b *bench) killPod(ctx context.Context, deadline time.Time) error {
	return b.term.KillPod(ctx, Request{Pod: b.pod, Status: b.observe(), Deadline: deadline})
}

// observe returns the truth about the pod as an observation.
func (b *bench) observe() *cri.PodStatus {
	status := &cri.PodStatus{UID: podUID, Name: podName, Namespace: "default", IPs: []string{"10.0.0.7"}, ObservedAt: time.Now()}
	for _, s := range b.rt.Sandboxes(podUID) {
		status.Sandboxes = append(status.Sandboxes, cri.SandboxStatus{ID: s.ID, Attempt: s.Attempt, Ready: s.Ready})
	}
	for _, c := range b.rt.Containers(podUID) {
		status.Containers = append(status.Containers, cri.ContainerStatus{
			ID: c.ID, Name: c.Name, SandboxID: c.SandboxID, Annotations: c.Config.GetAnnotations(),
			State: map[runtimeapi.ContainerState]cri.ContainerState{
				runtimeapi.ContainerState_CONTAINER_CREATED: cri.ContainerCreated,
				runtimeapi.ContainerState_CONTAINER_RUNNING: cri.ContainerRunning,
				runtimeapi.ContainerState_CONTAINER_EXITED:  cri.ContainerExited,
				runtimeapi.ContainerState_CONTAINER_UNKNOWN: cri.ContainerUnknown,
			}[c.State],
		})
	}
	return status
}

func (b *bench) container(name string) fakecri.Container {
	c, ok := b.rt.Newest(podUID, name)
	if !ok {
		panic("no container " + name)
	}
	return c
}

// signals are the signals of a container as "TERM@3s" since start.
func (b *bench) signals(name string, start time.Time) []string {
	var out []string
	for _, s := range b.container(name).Signals {
		out = append(out, fmt.Sprintf("%s@%s", s.Name, s.At.Sub(start)))
	}
	return out
}

// events records what the user is told, as "Reason object: message".
type events struct {
	record.EventRecorder
	mu   sync.Mutex
	list []string
}

func (e *events) Event(object runtime.Object, _, reason, message string) {
	ref, ok := object.(*v1.ObjectReference)
	if !ok {
		panic(fmt.Sprintf("event on a %T", object))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, fmt.Sprintf("%s %s/%s %s: %s", reason, ref.Namespace, ref.Name, ref.FieldPath, message))
}

func (e *events) all() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.list)
}

// fakeHooks keeps the contract of host.HookRunner: a hook is begun once, joined later, and killed at the shortest
// deadline anybody gave.
type fakeHooks struct {
	mu      sync.Mutex
	down    error // every call fails with it
	plan    map[string]hookPlan
	runs    map[string]*hookRun
	changed chan struct{}
}

// hookPlan says how the hook of a container behaves.
type hookPlan struct {
	takes       time.Duration
	code        int32
	err         error // instead of a run
	interrupted bool
	ended       bool // the container ended first
	silent      bool // the host never answers
	fallback    bool // of an httpGet hook to plain HTTP
}

type hookRun struct {
	request       host.HookRequest
	begun         time.Time
	endAt, killAt time.Time
	code          int32
}

var _ host.HookRunner = (*fakeHooks)(nil)

func newFakeHooks() *fakeHooks {
	return &fakeHooks{plan: map[string]hookPlan{}, runs: map[string]*hookRun{}, changed: make(chan struct{})}
}

func (h *fakeHooks) RunHook(ctx context.Context, req host.HookRequest) (*host.HookResult, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	plan := h.plan[req.ContainerID]
	switch {
	case h.down != nil:
		return nil, h.down
	case plan.err != nil:
		return nil, plan.err
	case plan.interrupted:
		return &host.HookResult{Interrupted: true}, nil
	case plan.ended:
		return &host.HookResult{ExitCode: -1, ContainerEnded: true}, nil
	}
	now := time.Now()
	run := h.runs[req.ContainerID]
	if run == nil {
		run = &hookRun{request: req, begun: now, endAt: now.Add(plan.takes), killAt: now.Add(req.Timeout), code: plan.code}
		h.runs[req.ContainerID] = run
	}
	if kill := now.Add(req.Timeout); kill.Before(run.killAt) {
		run.killAt = kill
		h.wake()
	}
	for {
		end, timedOut := run.endAt, false
		if run.killAt.Before(end) {
			end, timedOut = run.killAt, true
		}
		if !end.After(time.Now()) && !plan.silent {
			if timedOut {
				return &host.HookResult{ExitCode: 137, TimedOut: true}, nil
			}
			return &host.HookResult{ExitCode: run.code, HTTPFallback: plan.fallback}, nil
		}
		if plan.silent {
			end = time.Now().Add(time.Hour)
		}
		if err := h.wait(ctx, end); err != nil {
			return nil, err
		}
	}
}

func (h *fakeHooks) wait(ctx context.Context, until time.Time) error {
	changed := h.changed
	h.mu.Unlock()
	defer h.mu.Lock()
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-changed:
		if h.cut() != nil {
			return h.cut()
		}
	case <-timer.C:
	}
	return nil
}

func (h *fakeHooks) cut() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.down
}

func (h *fakeHooks) wake() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// setDown makes calls, also those that wait, fail with err until it is nil. Hooks go on.
func (h *fakeHooks) setDown(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.down = err
	h.wake()
}

// containerDied ends the hook in a container that is gone.
func (h *fakeHooks) containerDied(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs[id].endAt, h.runs[id].code = time.Now(), 137
	h.wake()
}

// reset forgets every hook and how hooks behave.
func (h *fakeHooks) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.runs)
	clear(h.plan)
}

func (h *fakeHooks) run(id string) *hookRun {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runs[id]
}

// running says whether the hook of the container still runs.
func (h *fakeHooks) running(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	run := h.runs[id]
	return run != nil && time.Now().Before(run.endAt) && time.Now().Before(run.killAt)
}

var errLink = fmt.Errorf("%w: the link is cut", errdefs.ErrUnavailable)
