// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ListContainers returns our containers in every state, those of one pod if uid is not empty.
func (c *Client) ListContainers(ctx context.Context, uid types.UID) ([]*runtimeapi.Container, error) {
	req := &runtimeapi.ListContainersRequest{
		Filter: &runtimeapi.ContainerFilter{LabelSelector: c.selector(uid)},
	}
	resp, err := call(ctx, c, "list_containers", c.timeout, c.runtime.ListContainers, req)
	if err != nil {
		return nil, err
	}
	return owned(resp.GetContainers(), req.GetFilter().GetLabelSelector()), nil
}

// ContainerStatus returns the status of one container.
func (c *Client) ContainerStatus(ctx context.Context, id string) (*runtimeapi.ContainerStatus, error) {
	req := &runtimeapi.ContainerStatusRequest{ContainerId: id}
	resp, err := call(ctx, c, "container_status", c.timeout, c.runtime.ContainerStatus, req)
	if err != nil {
		return nil, err
	}
	if resp.GetStatus() == nil {
		return nil, fmt.Errorf("%w: the runtime answered with no status of container %q", errdefs.ErrInternal, id)
	}
	return resp.GetStatus(), nil
}

// CreateContainer creates a container in a sandbox and returns its id; sandboxCfg is the configuration the sandbox was
// created with. It is not idempotent, but metadata (name and attempt) makes a second one in the same sandbox an error
// of the runtime.
func (c *Client) CreateContainer(
	ctx context.Context, sandboxID string, cfg *runtimeapi.ContainerConfig, sandboxCfg *runtimeapi.PodSandboxConfig,
) (string, error) {
	req := &runtimeapi.CreateContainerRequest{PodSandboxId: sandboxID, Config: cfg, SandboxConfig: sandboxCfg}
	resp, err := call(ctx, c, "create_container", c.timeout, c.runtime.CreateContainer, req)
	if err != nil {
		return "", err
	}
	if resp.GetContainerId() == "" {
		return "", fmt.Errorf("%w: the runtime answered with no id for container %q", errdefs.ErrInternal, cfg.GetMetadata().GetName())
	}
	return resp.GetContainerId(), nil
}

// StartContainer starts a created container.
func (c *Client) StartContainer(ctx context.Context, id string) error {
	req := &runtimeapi.StartContainerRequest{ContainerId: id}
	_, err := call(ctx, c, "start_container", c.timeout, c.runtime.StartContainer, req)
	return err
}

// StopContainer sends the container its stop signal and kills it after grace, which is rounded up to whole seconds; only
// zero (or less) kills at once. It returns after the container stopped, at the latest grace plus the usual timeout from
// now. A container that does not exist or does not run is a success.
//
// When the call ends early, by ctx or because the link broke, the signal was sent and the kill was not: the caller
// repeats the call with the time that remains, which does not signal again.
func (c *Client) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	grace = max(grace, 0)
	req := &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: wholeSeconds(grace)}
	_, err := call(ctx, c, "stop_container", grace+c.timeout, c.runtime.StopContainer, req)
	return ignoreNotFound(err)
}

// RemoveContainer removes a container record, and kills the container if it runs. It is idempotent, and a container
// that does not exist is a success.
func (c *Client) RemoveContainer(ctx context.Context, id string) error {
	req := &runtimeapi.RemoveContainerRequest{ContainerId: id}
	_, err := call(ctx, c, "remove_container", c.timeout, c.runtime.RemoveContainer, req)
	return ignoreNotFound(err)
}

// wholeSeconds rounds up, so that a grace period is never cut short and never becomes zero by rounding.
func wholeSeconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}
