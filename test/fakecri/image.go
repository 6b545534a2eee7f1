// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package fakecri

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// imageServer is the image service. Methods that are not here are Unimplemented.
type imageServer struct {
	runtimeapi.UnimplementedImageServiceServer
	r *Runtime
}

var _ runtimeapi.ImageServiceServer = imageServer{}

// AddImages makes images present. PullImage does so too, for every name; let it fail with Inject.
func (r *Runtime) AddImages(names ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		r.addImage(name)
	}
}

// addImage makes an image present and returns its id. The lock is held.
func (r *Runtime) addImage(name string) string {
	id := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(name)))
	r.images[name] = id
	r.wake()
	return id
}

// resolve finds an image by name or id. The lock is held.
func (r *Runtime) resolve(ref string) (id string, ok bool) {
	if id, ok := r.images[ref]; ok {
		return id, true
	}
	for _, id := range r.images {
		if id == ref {
			return id, true
		}
	}
	return "", false
}

// names returns the first name and repository digest of an image. The lock is held.
func (r *Runtime) names(id string) (tag, digest string, ok bool) {
	for _, name := range sortedKeys(r.images) {
		if r.images[name] == id {
			return name, repoDigest(name, id), true
		}
	}
	return "", "", false
}

func repoDigest(name, id string) string {
	repo, _, _ := strings.Cut(name, "@")
	if i := strings.LastIndex(repo, ":"); i > strings.LastIndex(repo, "/") {
		repo = repo[:i]
	}
	return repo + "@" + id
}

func (r *Runtime) image(name string) *runtimeapi.Image {
	id := r.images[name]
	return &runtimeapi.Image{
		Id: id, RepoTags: []string{name}, RepoDigests: []string{repoDigest(name, id)}, Size: 1 << 20,
		Spec: &runtimeapi.ImageSpec{Image: name},
	}
}

func (s imageServer) PullImage(
	_ context.Context, req *runtimeapi.PullImageRequest,
) (*runtimeapi.PullImageResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	return &runtimeapi.PullImageResponse{ImageRef: s.r.addImage(req.GetImage().GetImage())}, nil
}

func (s imageServer) ImageStatus(
	_ context.Context, req *runtimeapi.ImageStatusRequest,
) (*runtimeapi.ImageStatusResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	id, ok := s.r.resolve(req.GetImage().GetImage())
	if !ok {
		return &runtimeapi.ImageStatusResponse{}, nil
	}
	name, _, _ := s.r.names(id)
	return &runtimeapi.ImageStatusResponse{Image: s.r.image(name)}, nil
}

func (s imageServer) ListImages(
	context.Context, *runtimeapi.ListImagesRequest,
) (*runtimeapi.ListImagesResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	resp := &runtimeapi.ListImagesResponse{}
	for _, name := range sortedKeys(s.r.images) {
		resp.Images = append(resp.Images, s.r.image(name))
	}
	return resp, nil
}

func (s imageServer) RemoveImage(
	_ context.Context, req *runtimeapi.RemoveImageRequest,
) (*runtimeapi.RemoveImageResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if id, ok := s.r.resolve(req.GetImage().GetImage()); ok {
		for name := range s.r.images {
			if s.r.images[name] == id {
				delete(s.r.images, name)
			}
		}
	}
	return &runtimeapi.RemoveImageResponse{}, nil
}

func (s imageServer) ImageFsInfo(
	context.Context, *runtimeapi.ImageFsInfoRequest,
) (*runtimeapi.ImageFsInfoResponse, error) {
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{{
		Timestamp:  s.r.reported(s.r.clock.Now()),
		FsId:       &runtimeapi.FilesystemIdentifier{Mountpoint: "/var/lib/containerd"},
		UsedBytes:  &runtimeapi.UInt64Value{Value: 1 << 30},
		InodesUsed: &runtimeapi.UInt64Value{Value: 1 << 10},
	}}}, nil
}
