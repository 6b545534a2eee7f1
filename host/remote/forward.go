// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// runtimeForwarder forwards the runtime's RuntimeService, one method at a time. Answers and errors pass as they are.
type runtimeForwarder struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	to      runtimeapi.RuntimeServiceClient
	effects *effects
	guard   guard
}

var _ runtimeapi.RuntimeServiceServer = (*runtimeForwarder)(nil)

func (f *runtimeForwarder) Version(ctx context.Context, r *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return f.to.Version(ctx, r)
}

func (f *runtimeForwarder) RunPodSandbox(ctx context.Context, r *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	if err := f.guard.sandbox(r.GetConfig()); err != nil {
		return nil, err
	}
	return perform(ctx, f.effects, sandboxKey(r), r, f.to.RunPodSandbox)
}

func (f *runtimeForwarder) StopPodSandbox(ctx context.Context, r *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	return perform(ctx, f.effects, "stop sandbox "+r.GetPodSandboxId(), r, f.to.StopPodSandbox)
}

func (f *runtimeForwarder) RemovePodSandbox(ctx context.Context, r *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error) {
	return perform(ctx, f.effects, "remove sandbox "+r.GetPodSandboxId(), r, f.to.RemovePodSandbox)
}

func (f *runtimeForwarder) PodSandboxStatus(ctx context.Context, r *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	return f.to.PodSandboxStatus(ctx, r)
}

func (f *runtimeForwarder) ListPodSandbox(ctx context.Context, r *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	return f.to.ListPodSandbox(ctx, r)
}

func (f *runtimeForwarder) StreamPodSandboxes(r *runtimeapi.StreamPodSandboxesRequest, out grpc.ServerStreamingServer[runtimeapi.StreamPodSandboxesResponse]) error {
	return forwardStream(r, out, f.to.StreamPodSandboxes)
}

func (f *runtimeForwarder) CreateContainer(ctx context.Context, r *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error) {
	judged, err := f.guard.container(r)
	if err != nil {
		return nil, err
	}
	return perform(ctx, f.effects, containerKey(r), judged, f.createPinned)
}

func (f *runtimeForwarder) createPinned(ctx context.Context, judged *runtimeapi.CreateContainerRequest, options ...grpc.CallOption) (*runtimeapi.CreateContainerResponse, error) {
	pinned, err := f.guard.pin(ctx, judged)
	if err != nil {
		return nil, err
	}
	return f.to.CreateContainer(ctx, pinned, options...)
}

func (f *runtimeForwarder) StartContainer(ctx context.Context, r *runtimeapi.StartContainerRequest) (*runtimeapi.StartContainerResponse, error) {
	return perform(ctx, f.effects, "start container "+r.GetContainerId(), r, f.to.StartContainer)
}

func (f *runtimeForwarder) StopContainer(ctx context.Context, r *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	return perform(ctx, f.effects, stopKey(r), r, f.to.StopContainer)
}

func (f *runtimeForwarder) RemoveContainer(ctx context.Context, r *runtimeapi.RemoveContainerRequest) (*runtimeapi.RemoveContainerResponse, error) {
	return perform(ctx, f.effects, "remove container "+r.GetContainerId(), r, f.to.RemoveContainer)
}

func (f *runtimeForwarder) ListContainers(ctx context.Context, r *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	return f.to.ListContainers(ctx, r)
}

func (f *runtimeForwarder) StreamContainers(r *runtimeapi.StreamContainersRequest, out grpc.ServerStreamingServer[runtimeapi.StreamContainersResponse]) error {
	return forwardStream(r, out, f.to.StreamContainers)
}

func (f *runtimeForwarder) ContainerStatus(ctx context.Context, r *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	return f.to.ContainerStatus(ctx, r)
}

func (f *runtimeForwarder) UpdateContainerResources(ctx context.Context, r *runtimeapi.UpdateContainerResourcesRequest) (*runtimeapi.UpdateContainerResourcesResponse, error) {
	return f.to.UpdateContainerResources(ctx, r)
}

func (f *runtimeForwarder) ReopenContainerLog(ctx context.Context, r *runtimeapi.ReopenContainerLogRequest) (*runtimeapi.ReopenContainerLogResponse, error) {
	return f.to.ReopenContainerLog(ctx, r)
}

func (f *runtimeForwarder) ExecSync(ctx context.Context, r *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	return f.to.ExecSync(ctx, r)
}

func (f *runtimeForwarder) Exec(ctx context.Context, r *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	return f.to.Exec(ctx, r)
}

func (f *runtimeForwarder) Attach(ctx context.Context, r *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	return f.to.Attach(ctx, r)
}

func (f *runtimeForwarder) PortForward(ctx context.Context, r *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	return f.to.PortForward(ctx, r)
}

func (f *runtimeForwarder) ContainerStats(ctx context.Context, r *runtimeapi.ContainerStatsRequest) (*runtimeapi.ContainerStatsResponse, error) {
	return f.to.ContainerStats(ctx, r)
}

func (f *runtimeForwarder) ListContainerStats(ctx context.Context, r *runtimeapi.ListContainerStatsRequest) (*runtimeapi.ListContainerStatsResponse, error) {
	return f.to.ListContainerStats(ctx, r)
}

func (f *runtimeForwarder) StreamContainerStats(r *runtimeapi.StreamContainerStatsRequest, out grpc.ServerStreamingServer[runtimeapi.StreamContainerStatsResponse]) error {
	return forwardStream(r, out, f.to.StreamContainerStats)
}

func (f *runtimeForwarder) PodSandboxStats(ctx context.Context, r *runtimeapi.PodSandboxStatsRequest) (*runtimeapi.PodSandboxStatsResponse, error) {
	return f.to.PodSandboxStats(ctx, r)
}

func (f *runtimeForwarder) ListPodSandboxStats(ctx context.Context, r *runtimeapi.ListPodSandboxStatsRequest) (*runtimeapi.ListPodSandboxStatsResponse, error) {
	return f.to.ListPodSandboxStats(ctx, r)
}

func (f *runtimeForwarder) StreamPodSandboxStats(r *runtimeapi.StreamPodSandboxStatsRequest, out grpc.ServerStreamingServer[runtimeapi.StreamPodSandboxStatsResponse]) error {
	return forwardStream(r, out, f.to.StreamPodSandboxStats)
}

func (f *runtimeForwarder) UpdateRuntimeConfig(ctx context.Context, r *runtimeapi.UpdateRuntimeConfigRequest) (*runtimeapi.UpdateRuntimeConfigResponse, error) {
	return f.to.UpdateRuntimeConfig(ctx, r)
}

func (f *runtimeForwarder) Status(ctx context.Context, r *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	return f.to.Status(ctx, r)
}

func (f *runtimeForwarder) CheckpointContainer(ctx context.Context, r *runtimeapi.CheckpointContainerRequest) (*runtimeapi.CheckpointContainerResponse, error) {
	if err := f.guard.checkpoint(); err != nil {
		return nil, err
	}
	return f.to.CheckpointContainer(ctx, r)
}

func (f *runtimeForwarder) CheckpointPod(ctx context.Context, r *runtimeapi.CheckpointPodRequest) (*runtimeapi.CheckpointPodResponse, error) {
	if err := f.guard.checkpoint(); err != nil {
		return nil, err
	}
	return f.to.CheckpointPod(ctx, r)
}

func (f *runtimeForwarder) RestorePod(ctx context.Context, r *runtimeapi.RestorePodRequest) (*runtimeapi.RestorePodResponse, error) {
	if err := f.guard.checkpoint(); err != nil {
		return nil, err
	}
	return f.to.RestorePod(ctx, r)
}

func (f *runtimeForwarder) GetContainerEvents(r *runtimeapi.GetEventsRequest, out grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error {
	return forwardEvents(r, out, f.to.GetContainerEvents)
}

func (f *runtimeForwarder) ListMetricDescriptors(ctx context.Context, r *runtimeapi.ListMetricDescriptorsRequest) (*runtimeapi.ListMetricDescriptorsResponse, error) {
	return f.to.ListMetricDescriptors(ctx, r)
}

func (f *runtimeForwarder) ListPodSandboxMetrics(ctx context.Context, r *runtimeapi.ListPodSandboxMetricsRequest) (*runtimeapi.ListPodSandboxMetricsResponse, error) {
	return f.to.ListPodSandboxMetrics(ctx, r)
}

func (f *runtimeForwarder) StreamPodSandboxMetrics(r *runtimeapi.StreamPodSandboxMetricsRequest, out grpc.ServerStreamingServer[runtimeapi.StreamPodSandboxMetricsResponse]) error {
	return forwardStream(r, out, f.to.StreamPodSandboxMetrics)
}

func (f *runtimeForwarder) RuntimeConfig(ctx context.Context, r *runtimeapi.RuntimeConfigRequest) (*runtimeapi.RuntimeConfigResponse, error) {
	return f.to.RuntimeConfig(ctx, r)
}

func (f *runtimeForwarder) UpdatePodSandboxResources(ctx context.Context, r *runtimeapi.UpdatePodSandboxResourcesRequest) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
	return f.to.UpdatePodSandboxResources(ctx, r)
}

// imageForwarder forwards the runtime's ImageService in the same way.
type imageForwarder struct {
	runtimeapi.UnimplementedImageServiceServer
	to runtimeapi.ImageServiceClient
}

var _ runtimeapi.ImageServiceServer = (*imageForwarder)(nil)

func (f *imageForwarder) ListImages(ctx context.Context, r *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error) {
	return f.to.ListImages(ctx, r)
}

func (f *imageForwarder) StreamImages(r *runtimeapi.StreamImagesRequest, out grpc.ServerStreamingServer[runtimeapi.StreamImagesResponse]) error {
	return forwardStream(r, out, f.to.StreamImages)
}

func (f *imageForwarder) ImageStatus(ctx context.Context, r *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error) {
	return f.to.ImageStatus(ctx, r)
}

func (f *imageForwarder) PullImage(ctx context.Context, r *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	return f.to.PullImage(ctx, r)
}

func (f *imageForwarder) RemoveImage(ctx context.Context, r *runtimeapi.RemoveImageRequest) (*runtimeapi.RemoveImageResponse, error) {
	return f.to.RemoveImage(ctx, r)
}

func (f *imageForwarder) ImageFsInfo(ctx context.Context, r *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error) {
	return f.to.ImageFsInfo(ctx, r)
}

// forwardStream passes the messages of a server stream on until it ends. The call to the runtime ends with ctx, which is
// the caller's.
func forwardStream[Req, Resp any](
	req *Req, out grpc.ServerStreamingServer[Resp],
	open func(context.Context, *Req, ...grpc.CallOption) (grpc.ServerStreamingClient[Resp], error),
) error {
	in, err := open(out.Context(), req)
	if err != nil {
		return err
	}
	for {
		message, err := in.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := out.Send(message); err != nil {
			return err
		}
	}
}

// eventBacklog is how many events a subscriber may be behind.
const eventBacklog = 1000

// forwardEvents passes container events on without ever holding up the runtime, which may wait for its subscribers while
// it starts and stops containers. A subscriber that is too far behind is dropped; it observes anew.
func forwardEvents(
	req *runtimeapi.GetEventsRequest, out grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse],
	open func(context.Context, *runtimeapi.GetEventsRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[runtimeapi.ContainerEventResponse], error),
) error {
	ctx, cancel := context.WithCancel(out.Context())
	defer cancel()
	in, err := open(ctx, req)
	if err != nil {
		return err
	}
	backlog := make(chan *runtimeapi.ContainerEventResponse, eventBacklog)
	ended := make(chan error, 1)
	go func() {
		defer close(backlog)
		ended <- receiveEvents(in, backlog)
		cancel() // even while the loop below is held up
	}()
	for event := range backlog {
		if err := out.Send(event); err != nil {
			cancel()
			for range backlog { // until the receiver has ended
			}
			return err
		}
	}
	return <-ended
}

func receiveEvents(in grpc.ServerStreamingClient[runtimeapi.ContainerEventResponse], backlog chan<- *runtimeapi.ContainerEventResponse) error {
	for {
		event, err := in.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case backlog <- event:
		default:
			return status.Errorf(codes.ResourceExhausted, "the subscriber is more than %d events behind", eventBacklog)
		}
	}
}
