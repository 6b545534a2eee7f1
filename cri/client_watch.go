// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/containerd/errdefs"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// SelectSandboxes returns the sandboxes with the given labels in every state, whoever owns them.
func (c *Client) SelectSandboxes(ctx context.Context, labels map[string]string) ([]*runtimeapi.PodSandbox, error) {
	req := &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{LabelSelector: labels}}
	resp, err := call(ctx, c, "list_podsandbox", c.timeout, c.runtime.ListPodSandbox, req)
	if err != nil {
		return nil, err
	}
	return owned(resp.GetItems(), labels), nil
}

// SelectContainers returns the containers with the given labels in every state, whoever owns them.
func (c *Client) SelectContainers(ctx context.Context, labels map[string]string) ([]*runtimeapi.Container, error) {
	req := &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{LabelSelector: labels}}
	resp, err := call(ctx, c, "list_containers", c.timeout, c.runtime.ListContainers, req)
	if err != nil {
		return nil, err
	}
	return owned(resp.GetContainers(), labels), nil
}

// SelectStats tells what the containers with the given labels use, whoever owns them.
func (c *Client) SelectStats(ctx context.Context, labels map[string]string) ([]*runtimeapi.ContainerStats, error) {
	req := &runtimeapi.ListContainerStatsRequest{Filter: &runtimeapi.ContainerStatsFilter{LabelSelector: labels}}
	resp, err := call(ctx, c, "list_container_stats", c.timeout, c.runtime.ListContainerStats, req)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(resp.GetStats(), func(s *runtimeapi.ContainerStats) bool {
		return len(owned([]*runtimeapi.ContainerAttributes{s.GetAttributes()}, labels)) == 0
	}), nil
}

// ContainerEvents calls event for each event of the runtime, of anybody's containers, until ctx ends or the stream breaks.
// It always returns an error. Events are hints: the runtime may leave some out, repeat them and send old ones. event must
// not block, because runtimes exist that wait for their subscribers.
func (c *Client) ContainerEvents(ctx context.Context, event func(*runtimeapi.ContainerEventResponse)) error {
	stream, err := c.runtime.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{}, grpc.MaxCallRecvMsgSize(MaxMessageBytes))
	if err != nil {
		return native(ctx, err, noDeadline)
	}
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%w: the runtime ended the stream of events", errdefs.ErrUnavailable)
		}
		if err != nil {
			return native(ctx, err, noDeadline)
		}
		event(message)
	}
}
