// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/cri"
)

// classTimeout bounds the question for a runtime class.
const classTimeout = 10 * time.Second

// ensureSandbox finds or makes the sandbox that containers are started in.
func (p *pass) ensureSandbox(ctx context.Context) error {
	if !p.actions.starts() {
		return nil
	}
	if err := p.widenCgroup(ctx); err != nil {
		return err
	}
	cfg, err := p.sandboxConfig(ctx)
	if err != nil {
		if !untold(ctx, err) {
			p.sandboxFailed(err)
		}
		return fmt.Errorf("configuring the sandbox: %w", err)
	}
	p.sandbox, p.sandboxID = cfg, p.actions.SandboxID
	if p.actions.CreateSandbox {
		return p.createSandbox(ctx)
	}
	return nil
}

func (p *pass) sandboxConfig(ctx context.Context) (*runtimeapi.PodSandboxConfig, error) {
	if err := p.ensureIDs(ctx); err != nil {
		return nil, err
	}
	hostname, err := cri.SandboxHostname(p.pod, p.opts.ClusterDomain)
	if err != nil {
		return nil, err
	}
	dns, problems := cri.DNSConfig(cri.DNSInput{
		Pod: p.pod, ClusterDNS: p.opts.ClusterDNS, ClusterDomain: p.opts.ClusterDomain, ResolvConf: p.facts.ResolvConf,
	})
	if p.actions.CreateSandbox {
		for _, problem := range problems {
			p.event(v1.EventTypeWarning, problem.Reason, problem.Message)
			if problem.OfNode != "" {
				node := &v1.ObjectReference{Kind: "Node", Name: p.opts.Identity.Node}
				p.opts.Recorder.Event(node, v1.EventTypeWarning, problem.Reason, problem.OfNode)
			}
		}
	}
	return cri.SandboxConfig(cri.SandboxInput{
		Pod: p.pod, Attempt: p.actions.Attempt, Identity: p.opts.Identity, PodLogsDir: p.facts.PodLogsDir,
		DNS: dns, Hostname: hostname, CgroupParent: p.cgroupParent, IDs: p.ids,
	})
}

// createSandbox makes a sandbox and makes sure that it lives.
func (p *pass) createSandbox(ctx context.Context) error {
	if err := p.turn.enter(ctx); err != nil {
		return err
	}
	defer p.turn.leave()
	p.metrics.startedPods.Inc()
	handler, err := p.runtimeHandler(ctx)
	if err != nil {
		if ctx.Err() == nil {
			p.sandboxFailed(err)
		}
		return err
	}
	begin := p.opts.Clock.Now()
	id, err := p.opts.Runtime.RunSandbox(ctx, p.sandbox, handler)
	p.metrics.ranSandbox(handler, p.opts.Clock.Since(begin), err)
	if err != nil {
		if !untold(ctx, err) {
			p.sandboxFailed(err)
		}
		return fmt.Errorf("running the sandbox: %w", err)
	}
	p.result.Acted = true
	p.sandboxID = id
	p.cgroups.tell(p.pod.UID, toldSandbox{id, p.cgroup.Resources})
	status, err := p.opts.Runtime.SandboxStatus(ctx, id)
	if err == nil && status.GetState() != runtimeapi.PodSandboxState_SANDBOX_READY {
		err = fmt.Errorf("sandbox %q ended as soon as it was made", id)
	}
	if err != nil {
		if !untold(ctx, err) {
			p.event(v1.EventTypeWarning, "FailedPodSandBoxStatus", fmt.Sprintf("Unable to get pod sandbox status: %v", err))
		}
		return fmt.Errorf("inspecting the new sandbox: %w", err)
	}
	if p.ips = cri.SandboxFacts(status).IPs; p.pod.Spec.HostNetwork && p.opts.HostIPs != nil {
		p.ips = p.opts.HostIPs()
	}
	if p.opts.SandboxReady != nil {
		p.opts.SandboxReady(p.pod, status)
	}
	return nil
}

// runtimeHandler is that of the pod's runtime class, "" for the runtime's own choice.
func (p *pass) runtimeHandler(ctx context.Context) (string, error) {
	class := ptr.Deref(p.pod.Spec.RuntimeClassName, "")
	switch {
	case class == "":
		return "", nil
	case p.opts.RuntimeClasses == nil:
		return "", fmt.Errorf("failed to lookup RuntimeClass %s: this node knows no runtime classes", class)
	}
	timed, cancel := context.WithTimeout(ctx, classTimeout)
	defer cancel()
	return p.opts.RuntimeClasses.RuntimeHandler(timed, class)
}

func (p *pass) sandboxFailed(err error) {
	p.metrics.failedPods.Inc()
	p.event(v1.EventTypeWarning, "FailedCreatePodSandBox", fmt.Sprintf("Failed to create pod sandbox: %v", err))
}
