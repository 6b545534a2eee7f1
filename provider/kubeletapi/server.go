// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apiserver/pkg/server/healthz"
)

const (
	// readHeaderTimeout bounds the TLS handshake and the reading of a request's header.
	readHeaderTimeout = 30 * time.Second
	// keepAliveTimeout is how long a connection without a request stays open, as in the kubelet.
	keepAliveTimeout = 90 * time.Second
	// shutdownGrace is how long running requests have to notice that the server ends before their connections are closed.
	shutdownGrace = 5 * time.Second
)

// Server serves the kubelet API of one node.
type Server struct {
	o       Options
	log     *slog.Logger
	auth    auth
	tls     *tlsState
	metrics *metrics
	mux     *http.ServeMux
	// access has an entry for each pattern of mux; a request that matches none needs proxyAccess.
	access map[string]access

	// mu guards closing and adding to requests.
	mu       sync.Mutex
	closing  bool
	requests sync.WaitGroup
}

var _ http.Handler = (*Server)(nil)

// New returns a Server that serves once Run is called, which also releases what New acquired. It reads the certificate
// files, so errors tell of missing or wrong ones. If o.Registerer already has the server's metrics, it panics.
func New(o Options) (*Server, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	tlsState, err := newTLS(o.TLS, o.NodeName)
	if err != nil {
		return nil, err
	}
	auth, err := newAuth(o.Reviews, tlsState.clientCA)
	if err != nil {
		tlsState.release()
		return nil, err
	}
	s := &Server{
		o:       o,
		log:     o.Logger,
		auth:    auth,
		tls:     tlsState,
		metrics: newMetrics(o.Registerer),
		mux:     http.NewServeMux(),
		access:  map[string]access{},
	}
	s.routes()
	return s, nil
}

// routes fills the mux. Every route says here what a caller must be allowed to do.
func (s *Server) routes() {
	checks := []healthz.HealthChecker{healthz.PingHealthz}
	if s.o.SyncLoop != nil {
		checks = append(checks, healthz.NamedCheck("syncloop", s.o.SyncLoop))
	}
	healthz.InstallHandler(healthzMux{s}, checks...)

	for _, path := range []string{"/pods", "/pods/{$}"} {
		s.handle("GET "+path, podsAccess, s.servePods)
	}
	for _, path := range []string{"/runningpods", "/runningpods/{$}"} {
		s.handle("GET "+path, podsAccess, s.serveRunningPods)
	}
	s.handle("GET /containerLogs/{namespace}/{pod}/{container}", proxyAccess, s.serveLogs)
	for _, method := range []string{"GET ", "POST "} {
		for _, path := range []string{"/{namespace}/{pod}/{container}", "/{namespace}/{pod}/{uid}/{container}"} {
			s.handle(method+"/exec"+path, enterAccess, s.serveExec)
			s.handle(method+"/attach"+path, enterAccess, s.serveAttach)
		}
		for _, path := range []string{"/{namespace}/{pod}", "/{namespace}/{pod}/{uid}"} {
			s.handle(method+"/portForward"+path, enterAccess, s.servePortForward)
		}
	}
	if s.o.Gatherer != nil {
		gathered := promhttp.HandlerFor(s.o.Gatherer, promhttp.HandlerOpts{
			ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelError), ErrorHandling: promhttp.ContinueOnError,
		})
		s.handle("GET /metrics", metricsAccess, gathered.ServeHTTP)
	}
}

func (s *Server) handle(pattern string, need access, handler http.HandlerFunc) {
	s.access[pattern] = need
	s.mux.HandleFunc(pattern, handler)
}

// healthzMux lets the healthz package register its paths.
type healthzMux struct{ server *Server }

// Handle registers one check.
func (m healthzMux) Handle(path string, handler http.Handler) {
	m.server.handle(path, healthzAccess, handler.ServeHTTP)
}

// Handler returns the API with authentication and authorisation in front, for serving by other means than Run.
func (s *Server) Handler() http.Handler { return s }

// ServeHTTP authenticates, authorises and serves one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		writeText(w, http.StatusServiceUnavailable, "the node process is shutting down")
		return
	}
	defer s.requests.Done()
	start := s.o.Clock.Now()
	ended := s.metrics.began(r)
	defer func() { ended(s.o.Clock.Since(start)) }()

	caller := s.authenticate(w, r)
	if caller == nil {
		return
	}
	// The right that is needed belongs to the route that will serve the request, not to how its path is spelt.
	_, pattern := s.mux.Handler(r)
	need, ok := s.access[pattern]
	if !ok {
		need = proxyAccess
	}
	if s.authorise(w, r, caller, need) {
		s.mux.ServeHTTP(w, r)
	}
}

// enter counts a request in, unless the server ends.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.requests.Add(1)
	return true
}

// Run serves over TLS until ctx ends, which also ends all streams, and returns when every request is finished. The
// error is nil when ctx ended. A Server runs once.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var background sync.WaitGroup
	defer background.Wait()
	defer cancel()
	background.Go(func() { s.tls.run(ctx) })
	listener, err := s.listen(ctx)
	if err != nil {
		return err
	}

	server := &http.Server{
		Handler:           s,
		TLSConfig:         s.tls.config,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       keepAliveTimeout,
		// No ReadTimeout or WriteTimeout: both would end streams and followed logs in the middle.
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(s.log.Handler(), slog.LevelInfo),
	}
	served := make(chan error, 1)
	background.Go(func() { served <- server.ServeTLS(listener, "", "") })
	s.log.Info("Serving the kubelet API", "address", listener.Addr().String())

	select {
	case err = <-served:
		err = fmt.Errorf("serving the kubelet API on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	cancel()
	s.drain(ctx, server)
	return err
}

func (s *Server) listen(ctx context.Context) (net.Listener, error) {
	if s.o.Listener != nil {
		return s.o.Listener, nil
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", s.o.Address)
	if err != nil {
		return nil, fmt.Errorf("listening for the kubelet API on %q: %w", s.o.Address, err)
	}
	return listener, nil
}

// drain refuses new requests and waits for the running ones, whose contexts have ended.
func (s *Server) drain(ctx context.Context, server *http.Server) {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if err := server.Shutdown(grace); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		s.log.Warn("Closing the kubelet API was not clean", "err", err)
	}
	// Whoever is left is stuck in a write to a client that does not read.
	_ = server.Close()
	s.requests.Wait()
}

// writeText answers with a plain text, as the kubelet does.
func writeText(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text))
}
