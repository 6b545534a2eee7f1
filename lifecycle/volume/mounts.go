// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"fmt"
	"path"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Mounts returns what the runtime mounts into a container: its volume mounts in the order of their definition, then the
// file for its termination message, which is made anew for each restart. The pod must be prepared.
//
// An error is the user's to mend (the reason is CreateContainerConfigError) unless it is of class Unavailable.
func (m *Manager) Mounts(ctx context.Context, pod *v1.Pod, container *v1.Container, restartCount int32) ([]*runtimeapi.Mount, error) {
	paths := m.paths(pod.UID)
	mounts := make([]*runtimeapi.Mount, 0, len(container.VolumeMounts)+1)
	for i := range container.VolumeMounts {
		mount, err := toMount(&container.VolumeMounts[i], paths, container.Name)
		if err != nil {
			return nil, err
		}
		mounts = append(mounts, mount)
	}
	if container.TerminationMessagePath == "" {
		return mounts, nil
	}
	file, err := m.dirs.EnsureTerminationLog(ctx, pod.UID, container.Name, restartCount)
	if err != nil {
		return nil, fmt.Errorf("making the termination message file of container %q: %w", container.Name, err)
	}
	return append(mounts, &runtimeapi.Mount{HostPath: file, ContainerPath: absolute(container.TerminationMessagePath)}), nil
}

func toMount(mount *v1.VolumeMount, paths map[string]string, container string) (*runtimeapi.Mount, error) {
	hostPath, ok := paths[mount.Name]
	if !ok {
		return nil, fmt.Errorf("cannot find volume %q to mount into container %q", mount.Name, container)
	}
	propagation, err := toPropagation(mount.MountPropagation)
	if err != nil {
		return nil, fmt.Errorf("mounting volume %q into container %q: %w", mount.Name, container, err)
	}
	return &runtimeapi.Mount{
		HostPath:      hostPath,
		ContainerPath: absolute(mount.MountPath),
		Readonly:      mount.ReadOnly,
		Propagation:   propagation,
	}, nil
}

func toPropagation(mode *v1.MountPropagationMode) (runtimeapi.MountPropagation, error) {
	if mode == nil {
		return runtimeapi.MountPropagation_PROPAGATION_PRIVATE, nil
	}
	switch *mode {
	case v1.MountPropagationNone:
		return runtimeapi.MountPropagation_PROPAGATION_PRIVATE, nil
	case v1.MountPropagationHostToContainer:
		return runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER, nil
	case v1.MountPropagationBidirectional:
		return runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL, nil
	default:
		return 0, fmt.Errorf("mountPropagation %q is not known: %w", *mode, errdefs.ErrInvalidArgument)
	}
}

// absolute puts a relative path under the container's root.
func absolute(p string) string {
	if path.IsAbs(p) {
		return p
	}
	return path.Join("/", p)
}
