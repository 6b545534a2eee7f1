// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/lifecycle"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

// identity is that of the node and cluster of every world.
var identity = cri.Identity{Cluster: "scenario", Node: "node"}

// World is an API, a runtime and a host that outlive the nodes run against them.
type World struct {
	API     *API
	Runtime *fakecri.Runtime
	Host    *Host

	t     testing.TB
	trace *Trace
	// life guards node. It is a channel, for who waits for a mutex holds up the clock of a bubble, and a node may need time
	// to end.
	life   chan struct{}
	node   *node
	traps  traps
	logger *slog.Logger
	// excuses are what was done to pods for which a node may stop their containers.
	excuses *excuses
	guarded *Guard
	// mutate changes the options of each engine before it is made.
	mutate func(*lifecycle.Options)
}

// newWorld makes a world without a node. It must be called in a bubble.
func newWorld(t testing.TB) *World { return newSkewedWorld(t, 0) }

// newSkewedWorld makes one in which the host's clock is wrong.
func newSkewedWorld(t testing.TB, skew time.Duration) *World {
	w := &World{t: t, trace: &Trace{begin: time.Now()}, logger: discard, excuses: newExcuses(), life: make(chan struct{}, 1)}
	w.Runtime = fakecri.New(fakecri.Options{Identity: identity, Skew: skew, Observe: w.observe})
	w.API = newAPI(w.trace)
	w.Host = newHost(w.trace, w.Runtime)
	w.API.wrote = w.wrote
	return w
}

// note adds a line that is about no pod.
func (w *World) note(text string) { w.trace.add(time.Now(), Event{Text: text}) }

// quiet are calls that change nothing.
var quiet = []string{
	"ListContainers", "ListPodSandbox", "ContainerStatus", "PodSandboxStatus", "ImageStatus", "ListImages", "Status", "Version",
	"ImageFsInfo", "ListContainerStats", "ListPodSandboxStats", "RuntimeConfig",
}

// observe turns what happens in the runtime into lines.
func (w *World) observe(e fakecri.Event) {
	out := Event{UID: e.UID, Container: e.Container, ID: e.ID, Grace: e.Grace, Code: e.ExitCode, Image: e.Image}
	what := string(e.UID)
	if e.Container != "" {
		what += "/" + e.Container
	}
	switch e.Kind {
	case fakecri.CallArrived:
		if slices.Contains(quiet, e.Method) {
			return
		}
		out.Detail = e.Method
		if what == "" {
			what = e.Image
		}
		out.Text = fmt.Sprintf("cri %s %s", e.Method, what)
		if e.Method == "StopContainer" {
			out.Text += fmt.Sprintf(" grace=%s", e.Grace)
		}
	case fakecri.Signalled:
		out.Detail = e.Signal
		out.Text = fmt.Sprintf("signal %s %s", what, e.Signal)
	case fakecri.ContainerEnded:
		out.Text = fmt.Sprintf("ended %s code=%d", what, e.ExitCode)
	default:
		out.Text = fmt.Sprintf("%s %s", e.Kind, what)
	}
	w.trace.add(e.At, out)
}

// wrote turns a change of a status into lines, one for each thing that a user sees.
func (w *World) wrote(before, after *v1.Pod) {
	add := func(format string, args ...any) {
		w.trace.add(time.Now(), Event{Text: "status " + after.Name + " " + fmt.Sprintf(format, args...), UID: after.UID})
	}
	if before.Status.Phase != after.Status.Phase {
		add("phase=%s", after.Status.Phase)
	}
	if before.Status.Reason != after.Status.Reason {
		add("reason=%s", after.Status.Reason)
	}
	if a, b := ready(before), ready(after); a != b {
		add("ready=%t", b)
	}
	old := map[string]string{}
	for _, c := range containerStatuses(before) {
		old[c.Name] = describe(c)
	}
	for _, c := range containerStatuses(after) {
		if text := describe(c); text != old[c.Name] {
			add("%s %s", c.Name, text)
		}
	}
}

// describe says what a container's status tells.
func describe(c v1.ContainerStatus) string {
	state := "unknown"
	switch {
	case c.State.Waiting != nil:
		state = "waiting:" + c.State.Waiting.Reason
	case c.State.Running != nil:
		state = "running"
	case c.State.Terminated != nil:
		state = fmt.Sprintf("terminated:%s:%d", c.State.Terminated.Reason, c.State.Terminated.ExitCode)
	}
	return fmt.Sprintf("%s restarts=%d", state, c.RestartCount)
}

func containerStatuses(p *v1.Pod) []v1.ContainerStatus {
	return slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses, p.Status.EphemeralContainerStatuses)
}

func statusOf(p *v1.Pod, container string) *v1.ContainerStatus {
	for _, c := range containerStatuses(p) {
		if c.Name == container {
			return &c
		}
	}
	return nil
}

func ready(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodReady && c.Status == v1.ConditionTrue
	})
}

// Cut cuts the link to the host and everything behind it; Mend mends it.
func (w *World) Cut() {
	w.blind(blindHost, "link", "link cut")
	w.Host.cut()
	w.Runtime.Cut()
}

// Mend ends a Cut.
func (w *World) Mend() {
	w.sees(blindHost, "link", "link mended")
	w.Host.mend()
	w.Runtime.Mend()
}

// KillHost is the sudden end of the host's process, through which all calls go. Mend starts a new one.
func (w *World) KillHost() {
	w.blind(blindHost, "link", "host dies")
	w.Host.Die()
	w.Runtime.Cut()
}

// podName is the full name of a pod of a world.
func podName(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: name}
}

// introduce makes a pod known to the host and the guard before it is created.
func (w *World) introduce(p *v1.Pod) {
	if w.guarded != nil {
		w.guarded.mu.Lock()
		w.guarded.pod(p.UID).spec = p
		w.guarded.mu.Unlock()
	}
	w.Host.state.Lock()
	defer w.Host.state.Unlock()
	w.Host.pods[p.UID] = string(p.UID)
}

// SetTrap kills the node at a call; a new one is started after the pause.
func (w *World) SetTrap(t Trap, pause time.Duration) {
	w.traps.mu.Lock()
	defer w.traps.mu.Unlock()
	w.traps.set = append(w.traps.set, armed{t, pause})
}

// close ends the node, so that the bubble can end.
func (w *World) close() {
	w.traps.disarm()
	w.KillNode()
}
