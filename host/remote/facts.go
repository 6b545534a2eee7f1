// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/host/hostpb"
)

// factsService serves what tells of a machine. Everything else is Unimplemented.
type factsService struct {
	hostpb.UnimplementedHostServiceServer
	facts host.FactsReader
	own   tongue
	clock clock.PassiveClock
}

var _ hostpb.HostServiceServer = (*factsService)(nil)

func (s *factsService) Hello(context.Context, *hostpb.HelloRequest) (*hostpb.HelloResponse, error) {
	return &hostpb.HelloResponse{
		Version: s.own.version, Time: timestamppb.New(s.clock.Now()), OldestProtocol: s.own.oldest, NewestProtocol: s.own.newest,
	}, nil
}

func (s *factsService) Facts(ctx context.Context, _ *hostpb.FactsRequest) (*hostpb.FactsResponse, error) {
	facts, err := s.facts.Facts(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	return factsToWire(facts), nil
}

// runtimeFacts forwards what a runtime tells of itself. Everything else is Unimplemented.
type runtimeFacts struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	to runtimeapi.RuntimeServiceClient
}

func (f *runtimeFacts) Version(ctx context.Context, r *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return f.to.Version(ctx, r)
}

func (f *runtimeFacts) Status(ctx context.Context, r *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	return f.to.Status(ctx, r)
}

// imageFacts does the same for images.
type imageFacts struct {
	runtimeapi.UnimplementedImageServiceServer
	to runtimeapi.ImageServiceClient
}

func (f *imageFacts) ListImages(ctx context.Context, r *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error) {
	return f.to.ListImages(ctx, r)
}
