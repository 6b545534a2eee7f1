// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/host/hostpb"
)

func TestProbesOfEveryKindAndOutcomeCrossTheLink(t *testing.T) {
	http, tcp, rpc := filled[host.HTTPRequest](t), filled[host.TCPRequest](t), filled[host.GRPCRequest](t)
	fake := &fakeHost{}
	l := connect(t, fake, nil)
	for name, test := range map[string]struct {
		req  host.ProbeRequest
		want host.ProbeResult
	}{
		"http": {host.ProbeRequest{HTTPGet: &http, Timeout: 1500 * time.Millisecond}, host.ProbeResult{Outcome: host.ProbeWarning, Output: "w"}},
		"tcp":  {host.ProbeRequest{TCP: &tcp, Timeout: time.Second}, host.ProbeResult{Outcome: host.ProbeSuccess, Output: "s"}},
		"grpc": {host.ProbeRequest{GRPC: &rpc, Timeout: time.Second}, host.ProbeResult{Outcome: host.ProbeFailure, Output: "f"}},
	} {
		t.Run(name, func(t *testing.T) {
			fake.asked, fake.probe = nil, &test.want
			got, err := l.client.Probe(t.Context(), test.req)
			if diff := cmp.Diff(&test.want, got); diff != "" || err != nil {
				t.Errorf("answered: %v %s", err, diff)
			}
			if diff := cmp.Diff([]any{test.req}, fake.asked); diff != "" {
				t.Errorf("asked: %s", diff)
			}
		})
	}
}

func TestLostLinkIsNeverTheResultOfAProbe(t *testing.T) {
	h := &stuckProbeHost{begun: make(chan struct{})}
	l := connect(t, h, nil)
	go func() { <-h.begun; l.cut() }()
	if got, err := l.client.Probe(t.Context(), host.ProbeRequest{Timeout: time.Second}); got != nil || !errdefs.IsUnavailable(err) {
		t.Errorf("got %+v, %v", got, err)
	}
	l.stop()
	if got, err := l.client.Probe(t.Context(), host.ProbeRequest{Timeout: time.Second}); got != nil || !errdefs.IsUnavailable(err) {
		t.Errorf("host is gone: %+v, %v", got, err)
	}
}

// stuckProbeHost has probes that end with their call.
type stuckProbeHost struct {
	fakeHost
	begun chan struct{}
}

func (h *stuckProbeHost) Probe(ctx context.Context, _ host.ProbeRequest) (*host.ProbeResult, error) {
	h.begun <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestOutcomeThatIsNotKnownDoesNotCountAgainstTheProgram(t *testing.T) {
	for _, outcome := range []hostpb.ProbeOutcome{hostpb.ProbeOutcome_PROBE_OUTCOME_UNSPECIFIED, 99} {
		c := &client{host: oddHost{outcome: outcome}}
		if got, err := c.Probe(t.Context(), host.ProbeRequest{Timeout: time.Second}); got != nil || !errdefs.IsNotImplemented(err) {
			t.Errorf("%s: %+v, %v", outcome, got, err)
		}
	}
}

// oddHost is a host of another version.
type oddHost struct {
	hostpb.HostServiceClient
	outcome hostpb.ProbeOutcome
}

func (h oddHost) Probe(context.Context, *hostpb.ProbeRequest, ...grpc.CallOption) (*hostpb.ProbeResponse, error) {
	return &hostpb.ProbeResponse{Outcome: h.outcome}, nil
}

func TestOlderHostSaysThatItCannot(t *testing.T) {
	older := &backend{answer: func(method string, _ grpc.ServerStream) error {
		return status.Errorf(codes.Unimplemented, "unknown method %s", method)
	}}
	c := NewClient(startBackend(t, older), ClientOptions{})
	_, err := c.Probe(t.Context(), host.ProbeRequest{Timeout: time.Second})
	if !errdefs.IsNotImplemented(err) {
		t.Errorf("probe: %v", err)
	}
	err = c.WatchPods(t.Context(), host.WatchRequest{}, func(host.PodsChanged) error { return nil })
	if !errdefs.IsNotImplemented(err) {
		t.Errorf("watch: %v", err)
	}
}
