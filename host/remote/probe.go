// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/host/hostpb"
)

func (c *client) Probe(ctx context.Context, req host.ProbeRequest) (*host.ProbeResult, error) {
	resp, err := call(ctx, withSlack(req.Timeout), c.host.Probe, probeToWire(req))
	if err != nil {
		return nil, err
	}
	outcome, err := outcomeFromWire(resp.GetOutcome())
	if err != nil {
		return nil, err
	}
	return &host.ProbeResult{Outcome: outcome, Output: resp.GetOutput()}, nil
}

func (s *service) Probe(ctx context.Context, r *hostpb.ProbeRequest) (*hostpb.ProbeResponse, error) {
	result, err := s.host.Probe(ctx, probeFromWire(r))
	if err != nil {
		return nil, toStatus(err)
	}
	return &hostpb.ProbeResponse{Outcome: outcomeToWire(result.Outcome), Output: result.Output}, nil
}

func probeToWire(req host.ProbeRequest) *hostpb.ProbeRequest {
	out := &hostpb.ProbeRequest{Timeout: durationToWire(req.Timeout)}
	switch {
	case req.HTTPGet != nil:
		out.Action = &hostpb.ProbeRequest_HttpGet{HttpGet: httpToWire(req.HTTPGet)}
	case req.TCP != nil:
		out.Action = &hostpb.ProbeRequest_Tcp{Tcp: &hostpb.TCPRequest{Host: req.TCP.Host, Port: req.TCP.Port}}
	case req.GRPC != nil:
		out.Action = &hostpb.ProbeRequest_Grpc{Grpc: &hostpb.GRPCRequest{
			Host: req.GRPC.Host, Port: req.GRPC.Port, Service: req.GRPC.Service, UserAgent: req.GRPC.UserAgent}}
	}
	return out
}

// probeFromWire leaves an action that is not known out, which the host refuses.
func probeFromWire(r *hostpb.ProbeRequest) host.ProbeRequest {
	out := host.ProbeRequest{Timeout: r.GetTimeout().AsDuration()}
	switch action := r.GetAction().(type) {
	case *hostpb.ProbeRequest_HttpGet:
		out.HTTPGet = httpFromWire(action.HttpGet)
	case *hostpb.ProbeRequest_Tcp:
		out.TCP = &host.TCPRequest{Host: action.Tcp.GetHost(), Port: action.Tcp.GetPort()}
	case *hostpb.ProbeRequest_Grpc:
		out.GRPC = &host.GRPCRequest{
			Host: action.Grpc.GetHost(), Port: action.Grpc.GetPort(),
			Service: action.Grpc.GetService(), UserAgent: action.Grpc.GetUserAgent(),
		}
	}
	return out
}

func outcomeToWire(o host.ProbeOutcome) hostpb.ProbeOutcome {
	switch o {
	case host.ProbeSuccess:
		return hostpb.ProbeOutcome_PROBE_OUTCOME_SUCCESS
	case host.ProbeWarning:
		return hostpb.ProbeOutcome_PROBE_OUTCOME_WARNING
	default:
		return hostpb.ProbeOutcome_PROBE_OUTCOME_FAILURE
	}
}

// outcomeFromWire takes only outcomes that are known: any other one must not count against the program.
func outcomeFromWire(o hostpb.ProbeOutcome) (host.ProbeOutcome, error) {
	switch o {
	case hostpb.ProbeOutcome_PROBE_OUTCOME_SUCCESS:
		return host.ProbeSuccess, nil
	case hostpb.ProbeOutcome_PROBE_OUTCOME_WARNING:
		return host.ProbeWarning, nil
	case hostpb.ProbeOutcome_PROBE_OUTCOME_FAILURE:
		return host.ProbeFailure, nil
	default:
		return host.ProbeFailure, fmt.Errorf("the host answered with the outcome %s, which this node does not know; upgrade the node: %w", o, errdefs.ErrNotImplemented)
	}
}

func httpToWire(req *host.HTTPRequest) *hostpb.HTTPRequest {
	if req == nil {
		return nil
	}
	out := &hostpb.HTTPRequest{Scheme: req.Scheme, Host: req.Host, Port: req.Port, Path: req.Path}
	for _, header := range req.Headers {
		out.Headers = append(out.Headers, &hostpb.HTTPHeader{Name: header.Name, Value: header.Value})
	}
	return out
}

func httpFromWire(r *hostpb.HTTPRequest) *host.HTTPRequest {
	if r == nil {
		return nil
	}
	out := &host.HTTPRequest{Scheme: r.GetScheme(), Host: r.GetHost(), Port: r.GetPort(), Path: r.GetPath()}
	for _, header := range r.GetHeaders() {
		out.Headers = append(out.Headers, host.Header{Name: header.GetName(), Value: header.GetValue()})
	}
	return out
}
