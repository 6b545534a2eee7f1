// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"context"
	"fmt"
	"net/http"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
)

// servePortForward connects the client with ports of a pod.
func (s *Server) servePortForward(w http.ResponseWriter, r *http.Request) {
	s.serveStream(w, r, func(ctx context.Context) (string, error) {
		req, err := s.portForwardRequest(r)
		if err != nil {
			return "", err
		}
		return inTime(ctx, &s.o, "asking the runtime to forward ports", func(ctx context.Context) (string, error) {
			return s.o.Runtime.PortForward(ctx, req)
		})
	})
}

func (s *Server) portForwardRequest(r *http.Request) (*runtimeapi.PortForwardRequest, error) {
	// Only WebSocket clients name the ports in the query; SPDY clients name one with each stream.
	opts, err := portforward.NewV4Options(r)
	if err != nil {
		return nil, statusErrorf(http.StatusBadRequest, "%v", err)
	}
	pod, err := s.streamPod(r)
	if err != nil {
		return nil, err
	}
	observed, err := s.o.Pods.RuntimeStatus(pod.UID)
	if err != nil {
		return nil, fmt.Errorf("looking for pod %q in the runtime: %w", pod.Name, err)
	}
	sandbox := observed.ReadySandbox()
	if sandbox == nil {
		return nil, statusErrorf(http.StatusNotFound, "pod not found (%q): it has no sandbox that is ready", pod.Name+"_"+pod.Namespace)
	}
	return &runtimeapi.PortForwardRequest{PodSandboxId: sandbox.ID, Port: opts.Ports}, nil
}
