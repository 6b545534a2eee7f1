// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// UpdateContainerResources changes the limits of a container that was created; what is zero stays as it is. It is
// idempotent.
func (c *Client) UpdateContainerResources(ctx context.Context, id string, resources *runtimeapi.LinuxContainerResources) error {
	req := &runtimeapi.UpdateContainerResourcesRequest{ContainerId: id, Linux: resources}
	_, err := call(ctx, c, "update_container", c.timeout, c.runtime.UpdateContainerResources, req)
	return err
}

// UpdateSandboxResources tells the runtime what the containers of a sandbox have together, and the sandbox's own overhead, nil for none. It is
// idempotent. A runtime that has no such call is a success: few have a use for it.
func (c *Client) UpdateSandboxResources(ctx context.Context, id string, overhead, resources *runtimeapi.LinuxContainerResources) error {
	req := &runtimeapi.UpdatePodSandboxResourcesRequest{PodSandboxId: id, Overhead: overhead, Resources: resources}
	_, err := call(ctx, c, "update_podsandbox", c.timeout, c.runtime.UpdatePodSandboxResources, req)
	// containerd 2.2 says it without a code.
	if errdefs.IsNotImplemented(err) || errdefs.IsUnknown(err) && strings.Contains(err.Error(), "not implemented") {
		return nil
	}
	return err
}

// ContainerStats measures one container that runs.
func (c *Client) ContainerStats(ctx context.Context, id string) (*runtimeapi.ContainerStats, error) {
	req := &runtimeapi.ContainerStatsRequest{ContainerId: id}
	resp, err := call(ctx, c, "container_stats", c.timeout, c.runtime.ContainerStats, req)
	if err != nil {
		return nil, err
	}
	if resp.GetStats() == nil {
		return nil, fmt.Errorf("%w: the runtime answered with no stats of container %q", errdefs.ErrInternal, id)
	}
	return resp.GetStats(), nil
}

// UpdatedResources are CPU and memory of a container that runs, for UpdateContainerResources. No CPU limit lifts the one
// the container has; no memory limit leaves it as it is.
func UpdatedResources(r v1.ResourceRequirements) *runtimeapi.LinuxContainerResources {
	request := r.Limits.Cpu()
	if _, ok := r.Requests[v1.ResourceCPU]; ok {
		request = r.Requests.Cpu()
	}
	out := linuxResources(request, r.Limits.Cpu(), r.Limits.Memory())
	if out.CpuQuota == 0 {
		out.CpuQuota = -1
	}
	return out
}
