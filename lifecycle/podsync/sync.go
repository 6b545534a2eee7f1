// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/lifecycle/podref"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
	"github.com/tombolo-dev/tombolo/lifecycle/termination"
)

// hostTimeout bounds every question to the host but that for volumes; it is the kubelet's runtimeRequestTimeout.
const hostTimeout = cri.DefaultTimeout

// pass is one sync of one pod.
type pass struct {
	*Syncer
	pod     *v1.Pod
	status  *cri.PodStatus
	actions Actions
	facts   *host.Facts
	// sandboxID and sandbox are the sandbox to start containers in, known from the step that makes or finds it on.
	sandboxID string
	sandbox   *runtimeapi.PodSandboxConfig
	// cgroup is what the control group of the pod shall be, if we make it; cgroupParent is its name, "" if it has none of ours.
	cgroup       host.PodCgroup
	cgroupParent string
	// ids are those of the host that stand for the pod's; nil if they are the same.
	ids *runtimeapi.IDMapping
	// images are the references of the images that are mounted, by volume.
	images map[string]string
	// ips are the pod's addresses in that sandbox.
	ips []string
	// turn is the pod's part in the gate of starts; nil if it has been started before.
	turn   *turn
	result Result
}

// Sync does what brings the pod closer to its spec. status must be an observation made after the end of the last call.
func (s *Syncer) Sync(ctx context.Context, pod *v1.Pod, status *cri.PodStatus) Result {
	if status == nil {
		status = &cri.PodStatus{UID: pod.UID, Name: pod.Name, Namespace: pod.Namespace}
	}
	s.hooks.keep(pod.UID, status)
	p := &pass{Syncer: s, pod: pod, status: status, ips: status.IPs, actions: ComputeActions(s.input(pod, status))}
	if s.opts.Cgroups != nil {
		p.cgroup = cgroupFor(pod, s.opts.MaxPIDs)
	}
	if len(status.Containers) == 0 {
		p.turn = s.gate.newTurn()
		defer p.turn.leave()
	}
	for _, step := range []func(context.Context) error{
		p.prepare, p.kill, p.restartAll, p.prune, p.ensureSandbox, p.resize, p.awaitHooks, p.startEphemeral, p.startInit, p.startRegular,
	} {
		if err := ctx.Err(); err != nil {
			p.result.add(err)
			break
		}
		if err := step(ctx); err != nil {
			p.result.add(err)
			break
		}
	}
	return p.result
}

func (s *Syncer) input(pod *v1.Pod, status *cri.PodStatus) Input {
	in := Input{
		Pod: pod, Status: status, Probes: s.opts.Probes,
		AwaitsPostStart: func(cs *cri.ContainerStatus) bool { return s.AwaitsPostStart(pod, cs) },
		StartedBefore:   func(container string) bool { return s.loops.everStarted(pod.UID, container) },
	}
	if s.opts.Resizer != nil {
		in.ResizeRestarts = func(c *v1.Container, cs *cri.ContainerStatus) bool { return s.opts.Resizer.Restarts(pod, c, cs) }
	}
	return in
}

// kill stops what must not run.
func (p *pass) kill(ctx context.Context) error {
	if p.actions.KillPod {
		return p.killPod(ctx)
	}
	if len(p.actions.ToRemove) > 0 {
		return p.killAtOnce(ctx)
	}
	for _, k := range p.actions.ToKill {
		if err := p.killOne(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

func (p *pass) killOne(ctx context.Context, k ContainerKill) error {
	if err := p.callKiller(ctx, k); err != nil {
		return err
	}
	p.result.Acted = true
	return nil
}

func (p *pass) callKiller(ctx context.Context, k ContainerKill) error {
	return p.opts.Killer.KillContainer(ctx, termination.ContainerKill{
		Pod: p.pod, Container: k.Container, PodIP: p.podIP(), Why: k.Reason, Message: k.Message, NoGrace: k.Reason == KillRestartAll,
	})
}

func (p *pass) killPod(ctx context.Context) error {
	if p.actions.CreateSandbox {
		p.event(v1.EventTypeNormal, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
	}
	if err := p.opts.Killer.KillPod(ctx, termination.Request{Pod: p.pod, Status: p.status}); err != nil {
		return err
	}
	p.result.Acted = p.result.Acted || anyMayRun(p.status) || p.status.ReadySandbox() != nil
	return nil
}

// startEphemeral starts ephemeral containers. Nothing waits for one that cannot be started.
func (p *pass) startEphemeral(ctx context.Context) error {
	for _, i := range p.actions.EphemeralToStart {
		if err := ctx.Err(); err != nil {
			return err
		}
		p.result.add(p.start(ctx, podrules.AsContainer(&p.pod.Spec.EphemeralContainers[i]), typeEphemeral))
	}
	return nil
}

// startInit starts init containers and sidecars, one after the other until a regular init container fails.
func (p *pass) startInit(ctx context.Context) error {
	for _, i := range p.actions.InitToStart {
		if err := ctx.Err(); err != nil {
			return err
		}
		c := &p.pod.Spec.InitContainers[i]
		err := p.start(ctx, c, typeInit)
		if err != nil && !podrules.IsSidecar(c) {
			return err
		}
		p.result.add(err)
	}
	return nil
}

// startRegular starts regular containers. One that cannot be started does not stand in the way of the others.
func (p *pass) startRegular(ctx context.Context) error {
	for _, i := range p.actions.ToStart {
		if err := ctx.Err(); err != nil {
			return err
		}
		p.result.add(p.start(ctx, &p.pod.Spec.Containers[i], typeRegular))
	}
	return nil
}

func (p *pass) event(eventType, reason, message string) {
	p.opts.Recorder.Event(podref.Pod(p.pod), eventType, reason, message)
}

func (p *pass) containerEvent(c *v1.Container, eventType, reason, message string) {
	p.opts.Recorder.Event(podref.Container(p.pod, c.Name), eventType, reason, message)
}

// hostPod names the pod to the host.
func (p *pass) hostPod() host.Pod {
	return host.Pod{UID: p.pod.UID, Namespace: p.pod.Namespace, Name: p.pod.Name}
}
