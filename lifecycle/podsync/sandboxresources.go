// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
)

// toldSandbox is what the runtime was told last that all containers of a sandbox have together.
type toldSandbox struct {
	id        string
	resources host.CgroupResources
}

// toldResources returns what the runtime knows of the pod's sandbox; false if this process has not told it anything yet.
func (p *pass) toldResources() (host.CgroupResources, bool) {
	last, known := p.cgroups.told(p.pod.UID)
	return last.resources, known && last.id == p.actions.SandboxID
}

// tellRoom tells the runtime of the room that a resize needs while it is under way.
func (p *pass) tellRoom(ctx context.Context) error {
	last, known := p.toldResources()
	if !known {
		return nil
	}
	return p.tellSandbox(ctx, widest(last, p.cgroup.Resources))
}

// tellSandbox tells the runtime what the control group of the pod is about to have, for it may make a virtual machine of that size, and may
// refuse. What it knows is not told again.
func (p *pass) tellSandbox(ctx context.Context, want host.CgroupResources) error {
	id := p.actions.SandboxID
	if last, known := p.toldResources(); id == "" || p.opts.Cgroups == nil || known && last.Equal(want) {
		return nil
	}
	err := p.opts.Runtime.UpdateSandboxResources(ctx, id, cri.SandboxOverhead(p.pod), p.sandboxResources(want))
	switch {
	case errdefs.IsNotFound(err):
		return nil // it ended meanwhile; the next one is made with what is allocated
	case err != nil:
		return fmt.Errorf("updating the resources of sandbox %q: %w", id, err)
	}
	p.cgroups.tell(p.pod.UID, toldSandbox{id, want})
	return nil
}

// sandboxResources are those of a control group without the pod's overhead, in the runtime's words.
func (p *pass) sandboxResources(r host.CgroupResources) *runtimeapi.LinuxContainerResources {
	overhead := p.pod.Spec.Overhead
	out := &runtimeapi.LinuxContainerResources{
		CpuPeriod: cri.CPUPeriodMicros, CpuShares: r.CPUShares, CpuQuota: r.CPUQuota, MemoryLimitInBytes: r.MemoryBytes,
	}
	if milli := overhead.Cpu().MilliValue(); milli > 0 {
		out.CpuShares = max(r.CPUShares-cri.CPUShares(milli), cri.MinCPUShares)
		if r.CPUQuota > 0 {
			out.CpuQuota = r.CPUQuota - cri.CPUQuota(milli)
		}
	}
	if r.MemoryBytes > 0 {
		out.MemoryLimitInBytes = r.MemoryBytes - overhead.Memory().Value()
	}
	return out
}
