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

// GetPod reads a pod of the API. For a static pod it is the mirror pod, with the static pod's UID; NotFound means that there
// is none now.
func (s *Sink) GetPod(ctx context.Context, namespace, name string) (*v1.Pod, error) {
	static := s.Mux.mirrors.find(types.NamespacedName{Namespace: namespace, Name: name})
	pod, err := s.Base.GetPod(ctx, namespace, name)
	if err != nil || static == nil {
		return pod, err
	}
	if !standsFor(pod, static) {
		return nil, fmt.Errorf("reading the mirror pod of %s/%s: %w", namespace, name, errdefs.ErrNotFound)
	}
	return disguised(pod, static), nil
}

// PatchPodStatus patches the status of a pod or of its mirror pod.
func (s *Sink) PatchPodStatus(ctx context.Context, name types.NamespacedName, uid types.UID, patch []byte) (*v1.Pod, error) {
	static := s.Mux.mirrors.find(name)
	if static == nil || static.UID != uid {
		return s.Base.PatchPodStatus(ctx, name, uid, patch)
	}
	mirror, err := s.Base.GetPod(ctx, name.Namespace, name.Name)
	if err != nil {
		return nil, err
	}
	if !standsFor(mirror, static) {
		return nil, fmt.Errorf("patching the mirror pod of %s: %w", name, errdefs.ErrNotFound)
	}
	patched, err := s.Base.PatchPodStatus(ctx, name, mirror.UID, patch)
	if err != nil {
		return nil, err
	}
	return disguised(patched, static), nil
}

// DeletePod deletes a pod of the API. A static pod's mirror pod is not deleted here: it goes when the static pod has ended.
func (s *Sink) DeletePod(ctx context.Context, name types.NamespacedName, uid types.UID) error {
	if static := s.Mux.mirrors.find(name); static != nil && static.UID == uid {
		return fmt.Errorf("static pod %s: %w in the API", name, errdefs.ErrNotFound)
	}
	return s.Base.DeletePod(ctx, name, uid)
}
