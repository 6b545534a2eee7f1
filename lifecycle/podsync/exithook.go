// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/lifecycle/volume"
)

// ExitHookConfig returns the configuration of a container that runs command after the end of the given one, and that of
// the pod's newest sandbox, in which it is to be made. The container has the image of the record, and the environment,
// mounts, resources and security context of c; it has no ports, no terminal and no termination message. The pod's volumes
// are made ready if they are not. An error is about the pod, or Unavailable.
func (s *Syncer) ExitHookConfig(
	ctx context.Context, pod *v1.Pod, status *cri.PodStatus, c *v1.Container, record *cri.ContainerStatus, command []string,
) (*runtimeapi.ContainerConfig, *runtimeapi.PodSandboxConfig, error) {
	p := &pass{Syncer: s, pod: pod, status: status, ips: status.IPs, facts: s.opts.Facts()}
	if p.facts == nil {
		return nil, nil, errNoFacts
	}
	if len(status.Sandboxes) > 0 {
		p.actions.Attempt = status.Sandboxes[0].Attempt
	}
	prepared, cancel := context.WithTimeout(ctx, volume.Timeout)
	defer cancel()
	if err := s.opts.Volumes.Prepare(prepared, pod, false); err != nil {
		return nil, nil, fmt.Errorf("preparing volumes: %w", err)
	}
	sandbox, err := p.sandboxConfig(prepared)
	if err != nil {
		return nil, nil, err
	}
	p.sandbox = sandbox
	if err := p.ensureImageVolumes(ctx, c); err != nil {
		return nil, nil, err
	}
	timed, cancelTimed := context.WithTimeout(ctx, hostTimeout)
	defer cancelTimed()
	in, err := p.containerInput(timed, exitHookOf(c), 0, record.ImageRef)
	if err != nil {
		return nil, nil, err
	}
	in.ExitHook, in.Command, in.Args = true, command, nil
	config, err := cri.ContainerConfig(in)
	return config, sandbox, err
}

// exitHookOf is the container without what belongs to its own run only.
func exitHookOf(c *v1.Container) *v1.Container {
	hook := c.DeepCopy()
	hook.Lifecycle, hook.Ports, hook.TerminationMessagePath = nil, nil, ""
	hook.Stdin, hook.StdinOnce, hook.TTY = false, false, false
	return hook
}
