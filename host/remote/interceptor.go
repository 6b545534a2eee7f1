// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"cmp"
	"context"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"
)

// interceptor stands around every call of a server: it bounds its time, measures and logs it, and keeps a panic of one call
// from ending the process.
type interceptor struct {
	logger  *slog.Logger
	clock   clock.PassiveClock
	metrics *metrics
	porter  *porter
	lead    *lead
}

// allow says whether a caller may have its call.
func (i *interceptor) allow(ctx context.Context, method string) error {
	if err := i.porter.allow(ctx, method); err != nil {
		return err
	}
	return i.lead.allow(ctx, method)
}

func (i *interceptor) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (resp any, err error) {
	defer i.observe(ctx, info.FullMethod)(&err)
	defer i.recover(info.FullMethod, &err)
	if err := i.allow(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	if limit := unaryDeadline(info.FullMethod, req); limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	return handle(ctx, req)
}

func (i *interceptor) stream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	defer i.observe(stream.Context(), info.FullMethod)(&err)
	defer i.recover(info.FullMethod, &err)
	if err := i.allow(stream.Context(), info.FullMethod); err != nil {
		return err
	}
	if limit := streamDeadline(info.FullMethod); limit > 0 {
		ctx, cancel := context.WithTimeout(stream.Context(), limit)
		defer cancel()
		stream = boundedStream{ServerStream: stream, ctx: ctx}
	}
	return handle(server, stream)
}

// boundedStream is a stream with a deadline of ours.
type boundedStream struct {
	grpc.ServerStream
	ctx context.Context // instead of the stream's own
}

func (s boundedStream) Context() context.Context { return s.ctx }

// recover turns a panic into an error of the call.
func (i *interceptor) recover(method string, err *error) {
	if reason := recover(); reason != nil {
		i.logger.Error("call panicked", "method", method, "reason", reason, "stack", string(debug.Stack()))
		*err = status.Errorf(codes.Internal, "%s panicked", method)
	}
}

// observe begins to measure a call and returns what ends it.
func (i *interceptor) observe(ctx context.Context, method string) func(*error) {
	service, name := splitMethod(method)
	begin := i.clock.Now()
	i.metrics.running.WithLabelValues(service, name).Inc()
	logging := i.logger.Enabled(ctx, slog.LevelDebug)
	logger := i.logger
	if logging {
		logger = i.logger.With("method", name, "peer", peerName(ctx))
		logger.Debug("call begins")
	}
	return func(err *error) {
		code := status.Code(*err).String()
		took := i.clock.Since(begin)
		i.metrics.running.WithLabelValues(service, name).Dec()
		i.metrics.handled.WithLabelValues(service, name, code).Inc()
		i.metrics.duration.WithLabelValues(service, name).Observe(took.Seconds())
		if logging {
			logger.Debug("call ended", "code", code, "took", took.Round(time.Microsecond).String(), "error", *err)
		}
	}
}

// splitMethod splits /service/Method.
func splitMethod(full string) (service, method string) {
	service, method, _ = strings.Cut(strings.TrimPrefix(full, "/"), "/")
	return service, method
}

// peerName says who calls: the name in the client certificate, else the address.
func peerName(ctx context.Context) string {
	from, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	return cmp.Or(certifiedName(ctx), from.Addr.String())
}

// certifiedName is the name in the caller's certificate, "" without one.
func certifiedName(ctx context.Context) string {
	from, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	if info, ok := from.AuthInfo.(credentials.TLSInfo); ok && len(info.State.PeerCertificates) > 0 {
		return info.State.PeerCertificates[0].Subject.CommonName
	}
	return ""
}
