// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ListSandboxes returns our sandboxes in every state, those of one pod if uid is not empty.
func (c *Client) ListSandboxes(ctx context.Context, uid types.UID) ([]*runtimeapi.PodSandbox, error) {
	req := &runtimeapi.ListPodSandboxRequest{
		Filter: &runtimeapi.PodSandboxFilter{LabelSelector: c.selector(uid)},
	}
	resp, err := call(ctx, c, "list_podsandbox", c.timeout, c.runtime.ListPodSandbox, req)
	if err != nil {
		return nil, err
	}
	return owned(resp.GetItems(), req.GetFilter().GetLabelSelector()), nil
}

// SandboxStatus returns the status of one sandbox.
func (c *Client) SandboxStatus(ctx context.Context, id string) (*runtimeapi.PodSandboxStatus, error) {
	req := &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id}
	resp, err := call(ctx, c, "podsandbox_status", c.timeout, c.runtime.PodSandboxStatus, req)
	if err != nil {
		return nil, err
	}
	if resp.GetStatus() == nil {
		return nil, fmt.Errorf("%w: the runtime answered with no status of sandbox %q", errdefs.ErrInternal, id)
	}
	return resp.GetStatus(), nil
}

// RunSandbox creates and starts a sandbox and returns its id. It is not idempotent, but metadata (name, namespace, uid
// and attempt) makes a second one of the same attempt an error of the runtime. Its deadline is twice the usual one,
// because the network is set up within.
func (c *Client) RunSandbox(ctx context.Context, cfg *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	req := &runtimeapi.RunPodSandboxRequest{Config: cfg, RuntimeHandler: handler}
	resp, err := call(ctx, c, "run_podsandbox", 2*c.timeout, c.runtime.RunPodSandbox, req)
	if err != nil {
		return "", err
	}
	if resp.GetPodSandboxId() == "" {
		return "", fmt.Errorf("%w: the runtime answered with no id for the sandbox of %q", errdefs.ErrInternal, cfg.GetMetadata().GetName())
	}
	return resp.GetPodSandboxId(), nil
}

// StopSandbox stops a sandbox. The runtime kills containers that still run in it at once. It is idempotent, and a
// sandbox that does not exist is a success.
func (c *Client) StopSandbox(ctx context.Context, id string) error {
	req := &runtimeapi.StopPodSandboxRequest{PodSandboxId: id}
	_, err := call(ctx, c, "stop_podsandbox", c.timeout, c.runtime.StopPodSandbox, req)
	return ignoreNotFound(err)
}

// RemoveSandbox removes a sandbox and every container record in it. It is idempotent, and a sandbox that does not exist
// is a success.
func (c *Client) RemoveSandbox(ctx context.Context, id string) error {
	req := &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id}
	_, err := call(ctx, c, "remove_podsandbox", c.timeout, c.runtime.RemovePodSandbox, req)
	return ignoreNotFound(err)
}

// selector returns the labels that an object of ours, and of the pod if uid is not empty, has.
func (c *Client) selector(uid types.UID) map[string]string {
	labels := c.identity.Labels()
	if uid != "" {
		labels[LabelPodUID] = string(uid)
	}
	return labels
}

// owned drops what a runtime that ignores label selectors returned too much: foreign objects are never touched.
func owned[T interface{ GetLabels() map[string]string }](items []T, selector map[string]string) []T {
	out := make([]T, 0, len(items))
	for _, item := range items {
		if hasLabels(item.GetLabels(), selector) {
			out = append(out, item)
		}
	}
	return out
}

func hasLabels(labels, selector map[string]string) bool {
	for k, v := range selector {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}
