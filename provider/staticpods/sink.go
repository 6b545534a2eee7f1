// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package staticpods

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/lifecycle/status"
)

// Sink writes the status of static pods to their mirror pods, and that of others through Base.
type Sink struct {
	Base status.Sink
	Mux  *Mux
}

var _ status.Sink = (*Sink)(nil)

// GetPod reads a pod of the API. A mirror pod is returned with the UID of the static pod that it stands for.
func (s *Sink) GetPod(ctx context.Context, namespace, name string) (*v1.Pod, error) {
	pod, err := s.Base.GetPod(ctx, namespace, name)
	if err != nil || !isMirror(pod) {
		return pod, err
	}
	return disguised(pod), nil
}

// PatchPodStatus patches the status of a pod or of its mirror pod, which shows a static pod that went away until it has ended.
func (s *Sink) PatchPodStatus(
	ctx context.Context, name types.NamespacedName, uid types.UID, version string, patch []byte,
) (*v1.Pod, error) {
	if !s.Mux.mirrors.knows(name, uid) {
		return s.Base.PatchPodStatus(ctx, name, uid, version, patch)
	}
	mirror, err := s.Base.GetPod(ctx, name.Namespace, name.Name)
	if err != nil {
		return nil, err
	}
	if !isMirror(mirror) || staticUID(mirror) != uid {
		return nil, fmt.Errorf("patching the mirror pod of %s: %w", name, errdefs.ErrNotFound)
	}
	patched, err := s.Base.PatchPodStatus(ctx, name, mirror.UID, version, patch)
	if err != nil {
		return nil, err
	}
	return disguised(patched), nil
}

// DeletePod deletes a pod of the API. A static pod's mirror pod is not deleted here: it goes when the static pod has ended.
func (s *Sink) DeletePod(ctx context.Context, name types.NamespacedName, uid types.UID) error {
	if s.Mux.mirrors.knows(name, uid) {
		return fmt.Errorf("static pod %s: %w in the API", name, errdefs.ErrNotFound)
	}
	return s.Base.DeletePod(ctx, name, uid)
}
