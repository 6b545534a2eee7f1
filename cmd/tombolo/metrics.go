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
	// metricsTimeout is for one request, and metricsIdleTimeout for a connection without any: anybody may connect.
	metricsTimeout     = 30 * time.Second
	metricsIdleTimeout = 90 * time.Second
	metricsStopTimeout = time.Second
)

// metricsServer serves /metrics, and checks if there are any, in the clear, so its address should be a loopback one or one that
// a network policy guards.
type metricsServer struct {
	listener net.Listener
	mux      *http.ServeMux
	server   *http.Server
}

// newMetricsServer listens on the address of --metrics-address.
func newMetricsServer(ctx context.Context, address string, registry *prometheus.Registry) (*metricsServer, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening on --metrics-address %s: %w", address, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return &metricsServer{listener: listener, mux: mux, server: &http.Server{
		Handler: mux, ReadHeaderTimeout: metricsHeaderTimeout, ReadTimeout: metricsTimeout, WriteTimeout: metricsTimeout, IdleTimeout: metricsIdleTimeout,
	}}, nil
}

// handle serves a check: 200 if it is fine, else 503 with the reason. It is called before serve.
func (m *metricsServer) handle(pattern string, check func() error) {
	m.mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if err := check(); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = fmt.Fprintln(w, err)
			return
		}
		_, _ = fmt.Fprintln(w, "ok")
	})
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
