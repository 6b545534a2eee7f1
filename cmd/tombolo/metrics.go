// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	metricsHeaderTimeout = 5 * time.Second
	metricsStopTimeout   = time.Second
)

// metricsServer serves /metrics in the clear, so its address should be a loopback one.
type metricsServer struct {
	listener net.Listener
	server   *http.Server
}

// newMetricsServer listens on the address that the flag gave.
func newMetricsServer(ctx context.Context, flag, address string, registry *prometheus.Registry) (*metricsServer, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening on --%s %s: %w", flag, address, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return &metricsServer{listener: listener, server: &http.Server{Handler: mux, ReadHeaderTimeout: metricsHeaderTimeout}}, nil
}

func (m *metricsServer) address() string { return m.listener.Addr().String() }

// serve serves until ctx ends.
func (m *metricsServer) serve(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	serving, served := context.WithCancel(ctx)
	defer served()
	wg.Go(func() {
		<-serving.Done()
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), metricsStopTimeout)
		defer cancel()
		// A scrape that does not end in time is cut off with the process.
		_ = m.server.Shutdown(stopping)
	})
	if err := m.server.Serve(m.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
