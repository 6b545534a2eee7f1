// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/host/hostpb"
)

func (c *client) RunHook(ctx context.Context, req host.HookRequest) (*host.HookResult, error) {
	resp, err := call(ctx, hookDeadline(req.Timeout), c.host.RunHook, hookToWire(req))
	if err != nil {
		return nil, err
	}
	return &host.HookResult{
		ExitCode:       resp.GetExitCode(),
		Output:         resp.GetOutput(),
		TimedOut:       resp.GetTimedOut(),
		Interrupted:    resp.GetInterrupted(),
		HTTPFallback:   resp.GetHttpFallback(),
		ContainerEnded: resp.GetContainerEnded(),
	}, nil
}

func (s *service) RunHook(ctx context.Context, r *hostpb.RunHookRequest) (*hostpb.RunHookResponse, error) {
	result, err := s.host.RunHook(ctx, hookFromWire(r))
	if err != nil {
		return nil, toStatus(err)
	}
	return &hostpb.RunHookResponse{
		ExitCode:       result.ExitCode,
		Output:         result.Output,
		TimedOut:       result.TimedOut,
		Interrupted:    result.Interrupted,
		HttpFallback:   result.HTTPFallback,
		ContainerEnded: result.ContainerEnded,
	}, nil
}

func hookToWire(req host.HookRequest) *hostpb.RunHookRequest {
	out := &hostpb.RunHookRequest{
		PodUid:      string(req.PodUID),
		ContainerId: req.ContainerID,
		Kind:        req.Kind,
		Command:     req.Command,
		HttpGet:     httpToWire(req.HTTPGet),
		Timeout:     durationToWire(req.Timeout),
		JoinOnly:    req.JoinOnly,
	}
	if req.Sleep != nil {
		out.Sleep = durationpb.New(*req.Sleep)
	}
	return out
}

func hookFromWire(r *hostpb.RunHookRequest) host.HookRequest {
	out := host.HookRequest{
		PodUID:      types.UID(r.GetPodUid()),
		ContainerID: r.GetContainerId(),
		Kind:        r.GetKind(),
		Command:     r.GetCommand(),
		HTTPGet:     httpFromWire(r.GetHttpGet()),
		Timeout:     r.GetTimeout().AsDuration(),
		JoinOnly:    r.GetJoinOnly(),
	}
	if r.Sleep != nil {
		sleep := r.GetSleep().AsDuration()
		out.Sleep = &sleep
	}
	return out
}

// durationToWire keeps zero absent.
func durationToWire(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}
