// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"errors"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
)

// resize gives the containers that go on running the resources that they were allocated. What is to be started does not wait
// for those that cannot have them yet.
func (p *pass) resize(ctx context.Context) error {
	a := &p.actions
	if p.opts.Resizer == nil || p.pod.DeletionTimestamp != nil || a.KillPod || a.CreateSandbox || len(a.ToRemove) > 0 {
		return nil
	}
	acted, err := p.resizeWhole(ctx)
	p.result.Acted = p.result.Acted || acted
	p.result.Resized = acted
	if err == nil {
		p.result.Resized = p.opts.Resizer.Settled(p.pod) || acted
	}
	p.result.add(err)
	return nil
}

// resizeWhole resizes the pod's own control group and its containers. The group grows before its containers and shrinks after them, and the
// runtime is told of each step beforehand. It is told to take a step back that could not be done.
func (p *pass) resizeWhole(ctx context.Context) (acted bool, err error) {
	before, known := p.toldResources()
	if err := p.tellRoom(ctx); err != nil {
		return false, p.refused(ctx, err)
	}
	if err := p.widenCgroup(ctx); err != nil {
		return false, p.takeBack(ctx, before, known, err)
	}
	if acted, err = p.opts.Resizer.Apply(ctx, p.pod, p.without(p.actions.ToKill)); err != nil {
		return acted, err
	}
	before, known = p.toldResources()
	if err := p.tellSandbox(ctx, p.cgroup.Resources); err != nil {
		return acted, p.refused(ctx, err)
	}
	if err := p.settleCgroup(ctx); err != nil {
		return acted, p.takeBack(ctx, before, known, err)
	}
	return acted, nil
}

// refused has the user told that the runtime refuses a resize.
func (p *pass) refused(ctx context.Context, err error) error {
	if !untold(ctx, err) {
		p.opts.Resizer.Failed(p.pod, err)
	}
	return err
}

// takeBack tells the runtime what the sandbox had before something went wrong, which it returns with what went wrong thereby.
func (p *pass) takeBack(ctx context.Context, before host.CgroupResources, known bool, err error) error {
	if !known {
		return err
	}
	return errors.Join(err, p.tellSandbox(ctx, before))
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
