// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// PullImage pulls an image and returns its reference, to be used when containers are created from it. It has no
// deadline of its own: the runtime gives up when there is no progress, and then the error is Aborted. Cancelling ctx
// stops the pull.
func (c *Client) PullImage(ctx context.Context, req *runtimeapi.PullImageRequest) (string, error) {
	resp, err := call(ctx, c, "pull_image", noDeadline, c.pullImage, req)
	if err != nil {
		return "", err
	}
	if resp.GetImageRef() == "" {
		return "", fmt.Errorf("%w: the runtime answered with no reference for image %q", errdefs.ErrInternal, req.GetImage().GetImage())
	}
	return resp.GetImageRef(), nil
}

// pullImage tells a pull that the runtime called off by itself, as containerd does when no more of it arrives, from one that
// ended with the connection. gRPC gives both the same code.
func (c *Client) pullImage(
	ctx context.Context, req *runtimeapi.PullImageRequest, opts ...grpc.CallOption,
) (*runtimeapi.PullImageResponse, error) {
	resp, err := c.images.PullImage(ctx, req, opts...)
	if s := status.Convert(err); s.Code() == codes.Canceled && ctx.Err() == nil && !fromTransport(s.Message()) {
		return nil, status.Error(codes.Aborted, s.Message())
	}
	return resp, err
}

// ImageStatus returns the image of that name or reference, nil (and no error) if it is not present.
func (c *Client) ImageStatus(ctx context.Context, image string) (*runtimeapi.Image, error) {
	req := &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: image}}
	resp, err := call(ctx, c, "image_status", c.timeout, c.images.ImageStatus, req)
	if err != nil {
		return nil, ignoreNotFound(err)
	}
	if resp.GetImage() != nil && resp.GetImage().GetId() == "" {
		return nil, fmt.Errorf("%w: the runtime answered with no id for image %q", errdefs.ErrInternal, image)
	}
	return resp.GetImage(), nil
}

// ListImages returns all images of the runtime, whoever pulled them.
func (c *Client) ListImages(ctx context.Context) ([]*runtimeapi.Image, error) {
	resp, err := call(ctx, c, "list_images", c.timeout, c.images.ListImages, &runtimeapi.ListImagesRequest{})
	return resp.GetImages(), err
}

// ImageFsInfo returns the use of the file systems that hold images and writable layers.
func (c *Client) ImageFsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	return call(ctx, c, "image_fs_info", c.timeout, c.images.ImageFsInfo, &runtimeapi.ImageFsInfoRequest{})
}
