// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package fakecri

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// resourcesOf are those a container is made with, nil if its config has none.
func resourcesOf(cfg *runtimeapi.ContainerConfig) *runtimeapi.LinuxContainerResources {
	l := cfg.GetLinux().GetResources()
	if l == nil {
		return nil
	}
	return updated(&runtimeapi.LinuxContainerResources{}, l)
}

// updated takes over what is not zero.
func updated(old, change *runtimeapi.LinuxContainerResources) *runtimeapi.LinuxContainerResources {
	out := &runtimeapi.LinuxContainerResources{
		CpuPeriod: old.GetCpuPeriod(), CpuQuota: old.GetCpuQuota(), CpuShares: old.GetCpuShares(),
		MemoryLimitInBytes: old.GetMemoryLimitInBytes(), OomScoreAdj: old.GetOomScoreAdj(),
	}
	for _, f := range []struct {
		to   *int64
		from int64
	}{
		{&out.CpuPeriod, change.GetCpuPeriod()}, {&out.CpuQuota, change.GetCpuQuota()}, {&out.CpuShares, change.GetCpuShares()},
		{&out.MemoryLimitInBytes, change.GetMemoryLimitInBytes()}, {&out.OomScoreAdj, change.GetOomScoreAdj()},
	} {
		if f.from != 0 {
			*f.to = f.from
		}
	}
	return out
}

func (s runtimeServer) UpdateContainerResources(
	_ context.Context, req *runtimeapi.UpdateContainerResourcesRequest,
) (*runtimeapi.UpdateContainerResourcesResponse, error) {
	r := s.r
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle()
	c := r.containers[req.GetContainerId()]
	if c == nil {
		return nil, notFound("container", req.GetContainerId())
	}
	if limit := req.GetLinux().GetMemoryLimitInBytes(); c.alive && limit > 0 && uint64(limit) < c.usage {
		r.finish(c, r.clock.Now(), 137, "OOMKilled")
	}
	c.resources = updated(c.resources, req.GetLinux())
	r.wake()
	return &runtimeapi.UpdateContainerResourcesResponse{}, nil
}

// UpdatePodSandboxResources takes note of what a sandbox has, as runtimes do that make no virtual machine of it.
func (s runtimeServer) UpdatePodSandboxResources(
	_ context.Context, req *runtimeapi.UpdatePodSandboxResourcesRequest,
) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	box := s.r.sandboxes[req.GetPodSandboxId()]
	if box == nil {
		return nil, notFound("sandbox", req.GetPodSandboxId())
	}
	box.told = append(box.told, req)
	return &runtimeapi.UpdatePodSandboxResourcesResponse{}, nil
}

func (s runtimeServer) ContainerStats(
	_ context.Context, req *runtimeapi.ContainerStatsRequest,
) (*runtimeapi.ContainerStatsResponse, error) {
	r := s.r
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.containers[req.GetContainerId()]
	if c == nil {
		return nil, notFound("container", req.GetContainerId())
	}
	return &runtimeapi.ContainerStatsResponse{Stats: &runtimeapi.ContainerStats{
		Attributes: &runtimeapi.ContainerAttributes{Id: c.id, Metadata: c.config.GetMetadata()},
		Memory: &runtimeapi.MemoryUsage{
			Timestamp: r.clock.Now().UnixNano(), UsageBytes: &runtimeapi.UInt64Value{Value: c.usage},
		},
	}}, nil
}

// UseMemory sets how many bytes of memory a container uses. A memory limit below that kills it.
func (r *Runtime) UseMemory(id string, bytes uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.containers[id]; c != nil {
		c.usage = bytes
	}
}
