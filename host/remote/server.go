// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/host/hostpb"
	"github.com/tombolo-dev/tombolo/link/calmlog"
)

const (
	// handshakeTimeout bounds how long a peer may take to secure its connection.
	handshakeTimeout = 10 * time.Second
	// stopTimeout is how long calls may go on after the server was told to stop.
	stopTimeout = 3 * time.Second
	// maxStreams bounds the calls that one connection may have under way.
	maxStreams = 4096
)

// ServerOptions say what a server serves.
type ServerOptions struct {
	// Host does what HostService offers.
	Host host.Host
	// Facts are all that HostService offers if there is no Host. Of the runtime, too, only what it tells of itself is served then.
	Facts host.FactsReader
	// Runtime is the connection to the machine's container runtime.
	Runtime grpc.ClientConnInterface
	// Credentials secure the connections. Without them they are not secured, as it is right
	// for one that comes from who started the process, and in tests.
	Credentials credentials.TransportCredentials
	// Policy judges what pods ask of the machine. Default: everything is allowed.
	Policy Policy
	// Pins keep what the policy has judged as it is. A policy needs them.
	Pins Pins
	// Version is what Hello tells, together with the protocols that this program speaks. Nodes that speak none of these are refused.
	Version string
	Clock   clock.PassiveClock
	// Logger gets every call at debug level, without its contents. Default: none.
	Logger *slog.Logger
	// Registerer gets the metrics. Default: none.
	Registerer prometheus.Registerer

	// speaks is for tests. Default: what this program speaks.
	speaks tongue
}

// Server serves a machine: HostService, and the runtime's own services forwarded method by method.
type Server struct {
	grpc   *grpc.Server
	logger *slog.Logger
	relays *sync.WaitGroup // goroutines of byte streams, which may end after their handlers
	// effects are calls of the runtime that go on when their callers are gone.
	effects *effects
}

// NewServer returns a server that serves nothing yet.
func NewServer(o ServerOptions) *Server {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Credentials == nil {
		o.Credentials = insecure.NewCredentials()
	}
	if o.speaks == (tongue{}) {
		o.speaks = native(o.Version)
	}
	around := &interceptor{
		logger: o.Logger, clock: o.Clock, metrics: newMetrics(o.Registerer),
		porter: &porter{own: o.speaks, log: calmlog.New(o.Logger, o.Clock)}, lead: newLead(o.Clock, o.Logger),
	}
	s := &Server{
		logger:  o.Logger,
		relays:  &sync.WaitGroup{},
		effects: newEffects(),
		grpc: grpc.NewServer(
			grpc.Creds(o.Credentials),
			grpc.ConnectionTimeout(handshakeTimeout),
			grpc.MaxConcurrentStreams(maxStreams),
			grpc.MaxRecvMsgSize(cri.MaxMessageBytes),
			grpc.MaxSendMsgSize(cri.MaxMessageBytes),
			grpc.InitialWindowSize(streamWindow),
			grpc.InitialConnWindowSize(connectionWindow),
			grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveInterval, Timeout: keepaliveTimeout}),
			grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveMinInterval, PermitWithoutStream: true}),
			grpc.UnaryInterceptor(around.unary),
			grpc.StreamInterceptor(around.stream),
		),
	}
	guard := guard{policy: o.Policy, pins: o.Pins, refused: calmlog.New(o.Logger, o.Clock)}
	facts := factsService{facts: o.Facts, own: o.speaks, clock: o.Clock}
	runtime, images := runtimeapi.NewRuntimeServiceClient(o.Runtime), runtimeapi.NewImageServiceClient(o.Runtime)
	if o.Host == nil {
		hostpb.RegisterHostServiceServer(s.grpc, &facts)
		runtimeapi.RegisterRuntimeServiceServer(s.grpc, &runtimeFacts{to: runtime})
		runtimeapi.RegisterImageServiceServer(s.grpc, &imageFacts{to: images})
		return s
	}
	facts.facts = o.Host
	hostpb.RegisterHostServiceServer(s.grpc, &service{factsService: facts, host: o.Host, guard: guard, relays: s.relays})
	runtimeapi.RegisterRuntimeServiceServer(s.grpc, &runtimeForwarder{to: runtime, effects: s.effects, guard: guard})
	runtimeapi.RegisterImageServiceServer(s.grpc, &imageForwarder{to: images})
	return s
}

// Serve serves on the listener, which it closes, until ctx ends. Then calls that are under way get a few seconds to end
// before they are cut off. Serve returns when every one of its goroutines has ended; nil after ctx ended.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	var wg sync.WaitGroup
	defer s.relays.Wait()
	defer wg.Wait()
	serving, served := context.WithCancel(ctx)
	defer served()
	wg.Go(func() {
		<-serving.Done()
		s.stop()
	})
	err := s.grpc.Serve(listener)
	if ctx.Err() != nil && (err == nil || errors.Is(err, grpc.ErrServerStopped)) {
		return nil
	}
	return err
}

// stop ends the server in order, or by force when that takes too long.
func (s *Server) stop() {
	force, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	stopForcing := context.AfterFunc(force, func() {
		s.logger.Debug("calls that are still under way are cut off")
		s.grpc.Stop()
	})
	s.grpc.GracefulStop()
	stopForcing()
	s.effects.stop(force)
}
