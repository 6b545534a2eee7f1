// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"maps"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/host/hostpb"
)

func (c *client) PodUsage(ctx context.Context, pod host.Pod, layers bool) (*host.PodUsage, error) {
	resp, err := call(ctx, measureTimeout, c.host.MeasurePod, &hostpb.MeasurePodRequest{Pod: podToWire(pod), Layers: layers})
	if err != nil {
		return nil, err
	}
	out := &host.PodUsage{Volumes: map[string]int64{}, Containers: map[string]host.ContainerUsage{}, Other: resp.GetOtherBytes()}
	maps.Copy(out.Volumes, resp.GetVolumeBytes())
	for name, u := range resp.GetContainers() {
		out.Containers[name] = host.ContainerUsage{Logs: u.GetLogBytes(), Layer: u.GetLayerBytes(), Elsewhere: u.GetLayerElsewhere()}
	}
	return out, nil
}

func (s *service) MeasurePod(ctx context.Context, r *hostpb.MeasurePodRequest) (*hostpb.MeasurePodResponse, error) {
	usage, err := s.host.PodUsage(ctx, podFromWire(r.GetPod()), r.GetLayers())
	if err != nil {
		return nil, toStatus(err)
	}
	out := &hostpb.MeasurePodResponse{VolumeBytes: usage.Volumes, Containers: map[string]*hostpb.ContainerUsage{}, OtherBytes: usage.Other}
	for name, u := range usage.Containers {
		out.Containers[name] = &hostpb.ContainerUsage{LogBytes: u.Logs, LayerBytes: u.Layer, LayerElsewhere: u.Elsewhere}
	}
	return out, nil
}
