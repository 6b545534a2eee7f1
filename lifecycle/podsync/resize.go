// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"

	"github.com/tombolo-dev/tombolo/cri"
)

// resize gives the containers that go on running the resources that they were allocated. What is to be started does not wait
// for those that cannot have them yet.
func (p *pass) resize(ctx context.Context) error {
	a := &p.actions
	if p.opts.Resizer == nil || p.pod.DeletionTimestamp != nil || a.KillPod || a.CreateSandbox || len(a.ToRemove) > 0 {
		return nil
	}
	// The pod's own control group grows before its containers and shrinks after them.
	if err := p.widenCgroup(ctx); err != nil {
		return err
	}
	acted, err := p.opts.Resizer.Apply(ctx, p.pod, p.without(a.ToKill))
	p.result.Acted = p.result.Acted || acted
	p.result.Resized = acted
	if err == nil {
		err = p.settleCgroup(ctx)
	}
	if err == nil {
		p.result.Resized = p.opts.Resizer.Settled(p.pod) || acted
	}
	p.result.add(err)
	return nil
}

// without is the observation without the containers that were killed since.
func (p *pass) without(killed []ContainerKill) *cri.PodStatus {
	if len(killed) == 0 {
		return p.status
	}
	dead := map[string]bool{}
	for _, k := range killed {
		dead[k.Container.ID] = true
	}
	left := *p.status
	left.Containers = make([]cri.ContainerStatus, 0, len(p.status.Containers))
	for i := range p.status.Containers {
		if record := &p.status.Containers[i]; !dead[record.ID] {
			left.Containers = append(left.Containers, *record)
		}
	}
	return &left
}
