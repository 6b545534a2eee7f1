// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Violation is a broken invariant.
type Violation struct {
	// Invariant is its name in the design: "I1" to "I10".
	Invariant string
	At        time.Duration
	Text      string
}

// String returns one line.
func (v Violation) String() string {
	return fmt.Sprintf("%s at %.3fs: %s", v.Invariant, v.At.Seconds(), v.Text)
}

// Guard watches a world for broken invariants. It knows what the outside can see, and nothing of the engine.
type Guard struct {
	w *World

	mu         sync.Mutex
	pods       map[types.UID]*podFacts
	containers map[string]*containerFacts
	published  map[string]int32 // container id -> exit code in the API
	hidden     bool
	blind      map[string]*sight
	violations []Violation
}

// podFacts are what happened to one pod.
type podFacts struct {
	spec *v1.Pod
	// ending says that the pod was deleted or ended, so that its containers may be stopped.
	ending bool
	// asked are the deletions that were asked for, oldest first.
	asked []asked
	// late says that the deadline was moved to lateBy, for the host was out of reach when it passed.
	late   bool
	lateBy time.Duration
	// process counts node processes; late is a matter of the present one.
	process int
	// made is when the pod was created.
	made time.Duration
	// ended says that a container of the pod ended that was not stopped for the pod's end.
	ended bool
	// images are the changes of the containers' images.
	images []imageChange
	// removes says that the node removed something of the pod from the runtime.
	removes bool
}

// imageChange is an image that a user gave to a container.
type imageChange struct {
	at               time.Duration
	container, image string
}

// containerFacts are what happened to one container.
type containerFacts struct {
	uid       types.UID
	name      string
	alive     bool
	signalled bool
	hooks     int
	image     string
	made      time.Duration
	// failedStart says that nobody knows whether its postStart hook ran.
	failedStart bool
	// stoppedAt is when the last StopContainer came, killBy when it would have killed.
	stoppedAt, killBy time.Duration
	code              int32
	done              bool
	// told says that the API had its id, vanished that somebody else removed its record. Without either of them nothing tells that
	// there was such a container.
	told, vanished bool
}

// guard begins to watch.
func (w *World) guard() *Guard {
	g := &Guard{
		w: w, pods: map[types.UID]*podFacts{}, containers: map[string]*containerFacts{}, published: map[string]int32{},
		blind: map[string]*sight{blindAPI: {}, blindHost: {}, blindNode: {}},
	}
	w.guarded = g
	w.trace.watch(g.see)
	wrote := w.API.wrote
	w.API.wrote = func(before, after *v1.Pod) {
		wrote(before, after)
		g.checkStatus(before, after)
	}
	w.API.vanished = g.checkVanished
	w.API.edited = g.edited
	return g
}

// Violations returns what was broken so far.
func (g *Guard) Violations() []Violation {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]Violation(nil), g.violations...)
}

// broken notes a violation. The guard is locked.
func (g *Guard) broken(at time.Duration, invariant, format string, args ...any) {
	g.violations = append(g.violations, Violation{invariant, at, fmt.Sprintf(format, args...)})
}

func (g *Guard) pod(uid types.UID) *podFacts {
	if g.pods[uid] == nil {
		g.pods[uid] = &podFacts{}
	}
	return g.pods[uid]
}

func (g *Guard) container(e Event) *containerFacts {
	if g.containers[e.ID] == nil {
		g.containers[e.ID] = &containerFacts{uid: e.UID, name: e.Container}
	}
	return g.containers[e.ID]
}

// see takes one event. It is called with the trace locked and must ask nothing of the world but its excuses.
func (g *Guard) see(e Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.look(e)
	switch e.Kind {
	case "created":
		c := g.container(e)
		c.image, c.made = e.Image, e.At
	case "delete":
		g.deleted(e)
	case "gone":
		g.pod(e.UID).ending = true
	case "started":
		g.started(e)
	case "signal":
		g.signal(e)
	case "ended":
		g.ended(e)
	case "hook":
		g.hook(e)
	case "cri":
		switch e.Detail {
		case "StopContainer":
			g.stop(e)
		case "RemoveContainer", "RemovePodSandbox":
			g.pod(e.UID).removes = true
		}
	case "removed":
		if !g.pod(e.UID).removes {
			g.container(e).vanished = true
		}
	}
}

func (g *Guard) deleted(e Event) {
	var name, grace string
	if _, err := fmt.Sscanf(e.Text, "delete %s grace=%s", &name, &grace); err != nil {
		return
	}
	d, err := time.ParseDuration(grace)
	p := g.pod(e.UID)
	p.ending = true
	if err == nil {
		p.asked = append(p.asked, asked{e.At, d})
	}
}

// look notes what the node can see.
func (g *Guard) look(e Event) {
	g.hidden = g.hidden || e.Detail == "hidden"
	switch {
	case e.Side == "":
	case e.Blind:
		g.blind[e.Side].lose(e.Cause, e.At)
	default:
		g.blind[e.Side].regain(e.Cause, e.At)
	}
}

// edited notes which images containers shall have.
func (g *Guard) edited(before, after *v1.Pod) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.pod(after.UID)
	if before == nil {
		p.made = time.Since(g.w.trace.begin)
	}
	for i, c := range after.Spec.Containers {
		if before == nil || before.Spec.Containers[i].Image != c.Image {
			p.images = append(p.images, imageChange{time.Since(g.w.trace.begin), c.Name, c.Image})
		}
	}
}

// started checks I2: two containers of one pod and name never run at once.
func (g *Guard) started(e Event) {
	for id, c := range g.containers {
		if c.alive && id != e.ID && c.uid == e.UID && c.name == e.Container {
			g.broken(e.At, "I2", "%s/%s starts while another one lives", e.UID, e.Container)
		}
	}
	c := g.container(e)
	c.alive = true
	if isEphemeral(e.Container) {
		for id, other := range g.containers {
			began := other.alive || other.done && (other.told || !other.vanished)
			if id != e.ID && other.uid == e.UID && other.name == e.Container && began {
				g.broken(e.At, "I2", "%s/%s is ephemeral and starts a second time", e.UID, e.Container)
			}
		}
	}
}

func (g *Guard) ended(e Event) {
	c := g.container(e)
	c.alive, c.done, c.code = false, true, e.Code
	if p := g.pod(e.UID); !p.ending {
		p.ended = true
	}
}

// mayStop says whether there is a reason to stop a container.
func (g *Guard) mayStop(e Event) bool {
	p, c := g.pod(e.UID), g.container(e)
	if p.ending || c.failedStart || p.changed(c) || g.w.excuses.mayStop(e.UID, e.Container, e.ID) || p.expired(e.At) {
		return true
	}
	done := p.ended || g.w.excuses.mayBeDone(e.UID)
	return done && p.spec != nil && (isSidecar(p.spec, e.Container) || isEphemeral(e.Container))
}

// expired says whether the pod's active deadline is over, which counts from its start time at the earliest.
func (p *podFacts) expired(at time.Duration) bool {
	if p.spec == nil || p.spec.Spec.ActiveDeadlineSeconds == nil {
		return false
	}
	return at+rounding >= p.made+time.Duration(*p.spec.Spec.ActiveDeadlineSeconds)*time.Second
}

// isEphemeral says whether that is the name of the ephemeral containers of histories.
func isEphemeral(container string) bool { return container == debugContainer }

// changed says whether the container had or has another image than a node may believe that it shall have.
func (p *podFacts) changed(c *containerFacts) bool {
	current := ""
	for _, change := range p.images {
		if change.container != c.name {
			continue
		}
		current = change.image
		if change.at >= c.made && change.image != c.image {
			return true
		}
	}
	return current != "" && current != c.image
}

func isSidecar(p *v1.Pod, container string) bool {
	for _, c := range p.Spec.InitContainers {
		if c.Name == container {
			return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
		}
	}
	return false
}

// signal checks I3, I4 and I7 when a container is made to end.
func (g *Guard) signal(e Event) {
	c := g.container(e)
	first := !c.signalled
	c.signalled = true
	if !first {
		return
	}
	if !g.mayStop(e) {
		invariant := "I3"
		if g.hidden {
			invariant = "I7"
		}
		g.broken(e.At, invariant, "%s/%s is stopped, and nobody asked for it", e.UID, e.Container)
	}
	p := g.pod(e.UID)
	if p.spec == nil || preStopOf(p.spec, e.Container) == nil || g.w.excuses.noHook(e.ID) {
		return
	}
	if c.hooks == 0 {
		g.broken(e.At, "I4", "%s/%s is stopped and its preStop hook was not begun", e.UID, e.Container)
	}
}

// hook checks I4: once, and only if the container is to be stopped.
func (g *Guard) hook(e Event) {
	if e.Detail == "postStart" && strings.HasSuffix(e.Text, " interrupted") {
		g.container(e).failedStart = true // what follows is the end of the container
	}
	if e.Detail != "preStop" || !strings.HasSuffix(e.Text, " begins") {
		return
	}
	c := g.container(e)
	c.hooks++
	if c.hooks > 1 {
		g.broken(e.At, "I4", "the preStop hook of %s/%s is begun a second time", e.UID, e.Container)
	}
	if c.done {
		g.broken(e.At, "I4", "the preStop hook of %s/%s is begun after its end", e.UID, e.Container)
	}
	if !g.mayStop(e) {
		g.broken(e.At, "I4", "the preStop hook of %s/%s runs, and nobody asked for its end", e.UID, e.Container)
	}
}

// checkVanished checks I1 when an object goes.
func (g *Guard) checkVanished(p *v1.Pod, by string) {
	if by != "node" {
		return
	}
	if alive := g.w.Runtime.Running(p.UID); len(alive) > 0 {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.broken(time.Since(g.w.trace.begin), "I1", "the object of %s goes while %q run", p.UID, alive)
	}
}

// checkStatus checks I5 when a status is written by the node.
func (g *Guard) checkStatus(before, after *v1.Pod) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := time.Since(g.w.trace.begin)
	if terminal(before) && before.Status.Phase != after.Status.Phase {
		g.broken(at, "I5", "the phase of %s goes from %s to %s", after.UID, before.Status.Phase, after.Status.Phase)
	}
	for _, old := range containerStatuses(before) {
		if s := statusOf(after, old.Name); s != nil && s.RestartCount < old.RestartCount {
			g.broken(at, "I5", "the restart count of %s/%s falls from %d to %d", after.UID, old.Name, old.RestartCount, s.RestartCount)
		}
	}
	for _, s := range containerStatuses(after) {
		for _, id := range idsOf(s) {
			if c := g.containers[id]; c != nil {
				c.told = true
			}
		}
		for _, end := range []*v1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
			if end != nil && end.ContainerID != "" {
				g.checkExit(at, after, s.Name, end)
			}
		}
	}
}

// idsOf are the ids of the containers that a status tells of.
func idsOf(s v1.ContainerStatus) (ids []string) {
	told := []string{s.ContainerID}
	for _, end := range []*v1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
		if end != nil {
			told = append(told, end.ContainerID)
		}
	}
	for _, id := range told {
		if _, id, ok := strings.Cut(id, "://"); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

func terminal(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
}

// reasonGuess is the reason of an exit code that nobody knows.
const reasonGuess = "ContainerStatusUnknown"

// checkExit says whether an exit code is the true one. A guess may become the truth, and nothing else changes.
func (g *Guard) checkExit(at time.Duration, p *v1.Pod, container string, end *v1.ContainerStateTerminated) {
	_, id, _ := strings.Cut(end.ContainerID, "://")
	if known, ok := g.published[id]; ok {
		if known != end.ExitCode {
			g.broken(at, "I5", "the exit code of %s/%s goes from %d to %d", p.UID, container, known, end.ExitCode)
		}
		return
	}
	if end.Reason == reasonGuess {
		return
	}
	g.published[id] = end.ExitCode
	c := g.containers[id]
	if c != nil && c.done && c.code != end.ExitCode {
		g.broken(at, "I5", "the exit code of %s/%s is %d, the API has %d (%s)", p.UID, container, c.code, end.ExitCode, end.Reason)
	}
}
