// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/host/hostpb"
	"github.com/tombolo-dev/tombolo/link/calmlog"
)

const (
	// leaderHeader is where a node says in each call which one it is, such as "node edge-1 of cluster 1234".
	leaderHeader = "tombolo-node"
	// leadSilence is for how long the node that leads a host may be silent before another one may lead it. A process that takes the
	// place of the former one has the same name, and need not wait.
	leadSilence = time.Minute
	// maxLeader bounds what a node says of itself.
	maxLeader = 400
)

// lead lets one node lead a host. Two would work against each other where a host has something once for all pods: the weights of
// classes of pods, the list of images in use, the free space. Callers that do not say who they are, because they only look, are never
// in the way.
type lead struct {
	clock   clock.PassiveClock
	logger  *slog.Logger
	refusal *calmlog.Log

	mu      sync.Mutex
	leader  string
	from    string // its address
	heard   time.Time
	refused string // the last one that was refused, and told of
}

func newLead(clk clock.PassiveClock, logger *slog.Logger) *lead {
	return &lead{clock: clk, logger: logger, refusal: calmlog.New(logger, clk)}
}

// allow says whether a caller may have its call. Refused is like not reached: it says nothing of pods.
func (l *lead) allow(ctx context.Context, method string) error {
	names := metadata.ValueFromIncomingContext(ctx, leaderHeader)
	if len(names) == 0 || method == hostpb.HostService_Hello_FullMethodName {
		return nil
	}
	name := nameOf(names[0][:min(len(names[0]), maxLeader)], certifiedName(ctx))
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	silence := now.Sub(l.heard)
	if l.leader != name && l.leader != "" && silence < leadSilence {
		if l.refused != name {
			l.refused = name
			l.refusal.Warn("another node wants to lead this host, and is refused", "node", name, "from", address(ctx), "leader", l.leader, "leader_from", l.from)
		}
		return status.Errorf(codes.Unavailable,
			"this host is led by %s, from %s, and not by %s: stop one of the two, or give it a host of its own; the host takes another node when the one that leads it was silent for %s",
			l.leader, l.from, name, leadSilence)
	}
	if l.leader != name {
		l.logger.Info("this host is led by another node", "node", name, "from", address(ctx), "former", l.leader)
		l.leader, l.refused = name, ""
	}
	l.from, l.heard = address(ctx), now
	return nil
}

// nameOf is the name of a node that says what it is called, and shows a certificate of a name, "" if it shows none. No name is that of a
// node with another certificate.
func nameOf(said, certified string) string {
	if certified == "" || said == "node "+certified || strings.HasPrefix(said, "node "+certified+" of ") {
		return said
	}
	return fmt.Sprintf("%s (by its certificate; it says %q)", certified, said)
}

func address(ctx context.Context) string {
	if from, ok := peer.FromContext(ctx); ok {
		return from.Addr.String()
	}
	return "somewhere"
}

// introduce adds to each call which node makes it, once that is known.
func introduce(node func() string) []grpc.DialOption {
	if node == nil {
		return nil
	}
	with := func(ctx context.Context) context.Context {
		if name := node(); name != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, leaderHeader, name)
		}
		return ctx
	}
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return invoke(with(ctx), method, req, reply, cc, opts...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return open(with(ctx), desc, cc, method, opts...)
		}),
	}
}
