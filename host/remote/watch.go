// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/containerd/errdefs"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/host/hostpb"
)

func (c *client) WatchPods(ctx context.Context, req host.WatchRequest, changed func(host.PodsChanged) error) error {
	callCtx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the RPC when changed failed
	stream, err := c.host.WatchPods(callCtx, &hostpb.WatchPodsRequest{
		Labels: req.Labels, DigestPeriod: durationpb.New(req.DigestPeriod)})
	if err != nil {
		return toNative(ctx, err)
	}
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("the host ended the watch: %w", errdefs.ErrUnavailable)
		}
		if err != nil {
			return toNative(ctx, err)
		}
		if err := changed(podsFromWire(message)); err != nil {
			return err
		}
	}
}

func (s *service) WatchPods(r *hostpb.WatchPodsRequest, out grpc.ServerStreamingServer[hostpb.WatchPodsResponse]) error {
	req := host.WatchRequest{Labels: r.GetLabels(), DigestPeriod: r.GetDigestPeriod().AsDuration()}
	return toStatus(s.host.WatchPods(out.Context(), req, func(pods host.PodsChanged) error {
		return out.Send(podsToWire(pods))
	}))
}

func podsToWire(pods host.PodsChanged) *hostpb.WatchPodsResponse {
	out := &hostpb.WatchPodsResponse{Digest: pods.Digest, PodDigests: pods.Digests}
	for _, uid := range pods.UIDs {
		out.Uids = append(out.Uids, string(uid))
	}
	return out
}

func podsFromWire(r *hostpb.WatchPodsResponse) host.PodsChanged {
	out := host.PodsChanged{Digest: r.GetDigest(), Digests: r.GetPodDigests()}
	for _, uid := range r.GetUids() {
		out.UIDs = append(out.UIDs, types.UID(uid))
	}
	return out
}
