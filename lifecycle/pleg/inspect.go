// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package pleg

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	"golang.org/x/sync/errgroup"

	"github.com/tombolo-dev/tombolo/cri"
)

// inspect asks for the status of everything that was listed of a pod. What has vanished since is left out; any other
// error is that of the whole.
func (p *PLEG) inspect(ctx context.Context, s *snapshot) (*cri.PodStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, p.o.InspectTimeout)
	defer cancel()
	sandboxes := make([]*cri.SandboxStatus, len(s.sandboxes))
	containers := make([]*cri.ContainerStatus, len(s.containers))
	calls, ctx := errgroup.WithContext(ctx)
	calls.SetLimit(callsParallel)
	for i, box := range s.sandboxes {
		calls.Go(func() error {
			status, err := p.o.Runtime.SandboxStatus(ctx, box.GetId())
			if err != nil {
				return unlessGone(err, "sandbox", box.GetId())
			}
			facts := cri.SandboxFacts(status)
			sandboxes[i] = &facts
			return nil
		})
	}
	for i, c := range s.containers {
		calls.Go(func() error {
			status, err := p.o.Runtime.ContainerStatus(ctx, c.GetId())
			if err != nil {
				return unlessGone(err, "container", c.GetId())
			}
			facts := cri.ContainerFacts(status)
			facts.SandboxID = c.GetPodSandboxId()
			containers[i] = &facts
			return nil
		})
	}
	if err := calls.Wait(); err != nil {
		return nil, err
	}
	status := cri.AssemblePodStatus(s.uid, s.name, s.namespace, present(sandboxes), present(containers), s.at)
	if ready := status.ReadySandbox(); ready != nil && ready.HostNetwork && p.o.HostIPs != nil {
		status.IPs = p.o.HostIPs() // the runtime tells none of such a pod
	}
	return status, nil
}

func unlessGone(err error, kind, id string) error {
	if errdefs.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("inspecting %s %q: %w", kind, id, err)
}

func present[T any](list []*T) []T {
	out := make([]T, 0, len(list))
	for _, each := range list {
		if each != nil {
			out = append(out, *each)
		}
	}
	return out
}
