// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/lifecycle/podref"
	"github.com/tombolo-dev/tombolo/lifecycle/termination"
)

const (
	// volumesTimeout is how long the kubelet waits for the volumes of a pod.
	volumesTimeout = 2*time.Minute + 3*time.Second
	// hostTimeout bounds every other question to the host; it is the kubelet's runtimeRequestTimeout.
	hostTimeout = cri.DefaultTimeout
)

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
	result    Result
}

// Sync does what brings the pod closer to its spec. status must be an observation made after the end of the last call.
func (s *Syncer) Sync(ctx context.Context, pod *v1.Pod, status *cri.PodStatus) Result {
	p := &pass{Syncer: s, pod: pod, status: status, actions: ComputeActions(pod, status)}
	if p.status == nil {
		p.status = &cri.PodStatus{UID: pod.UID, Name: pod.Name, Namespace: pod.Namespace}
	}
	for _, step := range []func(context.Context) error{
		p.prepare, p.kill, p.prune, p.ensureSandbox, p.startInit, p.startRegular,
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

// prepare makes ready what a start needs. It comes before the kills: what runs is not stopped as long as nothing could
// take its place.
func (p *pass) prepare(ctx context.Context) error {
	if !p.actions.starts() {
		return nil
	}
	if p.facts = p.opts.Facts(); p.facts == nil {
		return errNoFacts
	}
	timed, cancel := context.WithTimeout(ctx, volumesTimeout)
	defer cancel()
	if err := p.opts.Volumes.Prepare(timed, p.pod); err != nil {
		if untold(ctx, err) {
			return fmt.Errorf("preparing volumes: %w", err)
		}
		p.event(v1.EventTypeWarning, "FailedMount", fmt.Sprintf("Unable to attach or mount volumes: %v", err))
		return fmt.Errorf("preparing volumes: %w", err)
	}
	return nil
}

// kill stops what must not run.
func (p *pass) kill(ctx context.Context) error {
	if p.actions.KillPod {
		return p.killPod(ctx)
	}
	for _, k := range p.actions.ToKill {
		if err := p.opts.Killer.KillContainer(ctx, p.pod, k.Container, string(k.Reason), k.Message); err != nil {
			return err
		}
		p.result.Acted = true
	}
	return nil
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

// startInit starts init containers, one after the other until one fails.
func (p *pass) startInit(ctx context.Context) error {
	for _, i := range p.actions.InitToStart {
		if err := p.start(ctx, &p.pod.Spec.InitContainers[i], typeInit); err != nil {
			return err
		}
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
