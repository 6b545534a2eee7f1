// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"math/rand/v2"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/lifecycle/admission"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

// History is what happens in a random run, drawn from a seed before it begins.
type History struct {
	Seed uint64
	Pods []*v1.Pod
	Ops  []Op
	// Skew is how wrong the host's clock is. Watches says whether the host can watch pods.
	Skew    time.Duration
	Watches bool
	setup   []func(*World)
}

// Op is one thing that happens.
type Op struct {
	At   time.Duration
	Name string
	do   func(*player)
}

// Sizes of a history.
const (
	mostPods = 3
	mostOps  = 24
	// busy is the time in which things happen.
	busy = 2 * time.Minute
)

// drawer draws a history.
type drawer struct {
	*rand.Rand
	h *History
}

// Draw makes the history of a seed.
func Draw(seed uint64) *History {
	d := drawer{rand.New(rand.NewPCG(seed, 42)), &History{Seed: seed}} //nolint:gosec // a test, to be repeated.
	d.h.Watches = d.IntN(2) == 0
	d.h.Skew = []time.Duration{0, 0, time.Hour, -time.Hour}[d.IntN(4)]
	for i := range 1 + d.IntN(mostPods) {
		d.addPod(string(rune('a'+i)), 1, d.within(10*time.Second))
	}
	for range 3 + d.IntN(mostOps-2) {
		d.addOp()
	}
	return d.h
}

func (d drawer) within(most time.Duration) time.Duration {
	return time.Duration(d.Int64N(int64(most)/int64(time.Millisecond))) * time.Millisecond
}

func (d drawer) chance(n int) bool { return d.IntN(n) == 0 }

func (d drawer) pod() *v1.Pod { return d.h.Pods[d.IntN(len(d.h.Pods))] }

func (d drawer) op(at time.Duration, name string, do func(*player)) {
	d.h.Ops = append(d.h.Ops, Op{at, name, do})
}

// addPod draws a pod and its creation.
func (d drawer) addPod(name string, generation int, at time.Duration) {
	p := &v1.Pod{}
	p.Namespace, p.Name, p.UID = podName("").Namespace, name, types.UID(name)
	if generation > 1 {
		p.UID = types.UID(fmt.Sprintf("%s.%d", name, generation))
	}
	policies := []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever}
	p.Spec.RestartPolicy = policies[d.IntN(len(policies))]
	p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(1 + d.IntN(30)))
	p.Spec.Containers = []v1.Container{{Name: "main"}}
	fillDefaults(p)
	for _, feature := range features {
		if d.chance(3) {
			with := p.DeepCopy()
			feature(d, with)
			fillDefaults(with)
			if admission.Check(with, admission.Facts{MaxPods: 1000}) == nil {
				p = with
			}
		}
	}
	d.h.Pods = append(d.h.Pods, p)
	d.behaviours(p)
	d.op(at, "create "+string(p.UID), func(pl *player) { pl.create(p) })
}

// create makes the pod as soon as its name is free.
func (p *player) create(pod *v1.Pod) {
	p.introduce(pod)
	if p.API.Create(pod) == nil {
		return
	}
	p.API.Delete(nameOf(pod), 0)
	if err := p.API.Create(pod); err != nil {
		p.t.Error(err)
	}
}

// features are what a pod may have. Those that the node refuses are left out.
var features = []func(drawer, *v1.Pod){
	func(_ drawer, p *v1.Pod) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{Name: "init"})
	},
	func(_ drawer, p *v1.Pod) { p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "side"}) },
	func(_ drawer, p *v1.Pod) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{
			Name: "native", RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways),
		})
	},
	func(_ drawer, p *v1.Pod) { hookOf(p).PreStop = execHook("bye") },
	func(_ drawer, p *v1.Pod) { hookOf(p).PostStart = execHook("hello") },
	func(d drawer, p *v1.Pod) { p.Spec.Containers[0].ReadinessProbe = d.probe(p, "readiness") },
	func(d drawer, p *v1.Pod) { p.Spec.Containers[0].LivenessProbe = d.probe(p, "liveness") },
	func(d drawer, p *v1.Pod) { p.Spec.Containers[0].StartupProbe = d.probe(p, "startup") },
	func(d drawer, p *v1.Pod) {
		if d.chance(4) {
			p.Spec.ActiveDeadlineSeconds = ptr.To(int64(10 + d.IntN(90)))
		}
	},
}

func hookOf(p *v1.Pod) *v1.Lifecycle {
	c := &p.Spec.Containers[0]
	if c.Lifecycle == nil {
		c.Lifecycle = &v1.Lifecycle{}
	}
	return c.Lifecycle
}

func execHook(command string) *v1.LifecycleHandler {
	return &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{command}}}
}

func (d drawer) probe(p *v1.Pod, kind string) *v1.Probe {
	probe := &v1.Probe{PeriodSeconds: int32(1 + d.IntN(10)), FailureThreshold: int32(1 + d.IntN(3))} //nolint:gosec // small
	probe.HTTPGet = &v1.HTTPGetAction{Path: probePath(p, kind)}
	probe.HTTPGet.Port.IntVal = 80
	return probe
}

// probePath tells the probes of histories apart.
func probePath(p *v1.Pod, kind string) string { return "/" + string(p.UID) + "/" + kind }

// behaviours draws what the pod's containers and hooks do.
func (d drawer) behaviours(p *v1.Pod) {
	var set []func(*World)
	add := func(container string, steps ...fakecri.Behaviour) {
		set = append(set, func(w *World) { w.Runtime.Behave(fakecri.Selector{UID: p.UID, Container: container}, steps...) })
	}
	done := fakecri.Behaviour{Exits: true, ExitAfter: d.within(5 * time.Second)}
	first := done
	if d.chance(4) {
		first.ExitCode = 1
	}
	add("init", first, done)
	for _, name := range []string{"main", "side", "native"} {
		var steps []fakecri.Behaviour
		for range 1 + d.IntN(3) {
			steps = append(steps, d.behaviour())
		}
		add(name, steps...)
	}
	takes := []time.Duration{0, d.within(5 * time.Second), d.within(time.Minute), time.Hour}[d.IntN(4)]
	if hasPostStart(p) {
		takes = d.within(10 * time.Second)
	}
	set = append(set, func(w *World) { w.Host.OnHook(p.UID, "", takes, 0) })
	d.h.setup = append(d.h.setup, set...)
}

func hasPostStart(p *v1.Pod) bool {
	l := p.Spec.Containers[0].Lifecycle
	return l != nil && l.PostStart != nil
}

func (d drawer) behaviour() fakecri.Behaviour {
	b := fakecri.Behaviour{}
	if d.chance(3) {
		b.Exits, b.ExitAfter = true, d.within(time.Minute)
		b.ExitCode = []int32{0, 1, 3, 137}[d.IntN(4)]
	}
	switch d.IntN(4) {
	case 0:
		b.OnTERM.Ignore = true
	case 1:
		b.OnTERM.After = d.within(40 * time.Second)
	case 2:
		b.OnTERM.ExitCode = ptr.To[int32](6)
	}
	return b
}
