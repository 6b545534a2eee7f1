// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/host"
)

// Mounts returns what the runtime mounts into a container: its volume mounts in the order of their definition, then the
// file for its termination message, which is made anew for each restart. Parts of volumes are looked for anew, with the
// container's environment. The pod must be prepared.
//
// An error is the user's to mend (the reason is CreateContainerConfigError) unless it is of class Unavailable.
func (m *Manager) Mounts(
	ctx context.Context, pod *v1.Pod, container *v1.Container, restartCount int32, env []*runtimeapi.KeyValue,
) ([]*runtimeapi.Mount, error) {
	places := m.state(pod.UID).places
	mounts := make([]*runtimeapi.Mount, 0, len(container.VolumeMounts)+1)
	for i := range container.VolumeMounts {
		mount := &container.VolumeMounts[i]
		at := slices.IndexFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == mount.Name })
		volumeAt, ok := places[mount.Name]
		if at < 0 || !ok {
			return nil, fmt.Errorf("cannot find volume %q to mount into container %q", mount.Name, container.Name)
		}
		volume := &pod.Spec.Volumes[at]
		hostPath := volumeAt.path
		part, err := subPath(mount, env)
		if err == nil && part != "" {
			hostPath, err = m.part(ctx, pod.UID, volume, host.SubPath{HostPath: hostPath, Path: part, Container: container.Name, Mount: i})
		}
		if err != nil {
			return nil, err
		}
		propagation, err := toPropagation(mount.MountPropagation)
		if err != nil {
			return nil, fmt.Errorf("mounting volume %q into container %q: %w", mount.Name, container.Name, err)
		}
		mounts = append(mounts, &runtimeapi.Mount{
			HostPath: hostPath, ContainerPath: absolute(mount.MountPath), Propagation: propagation,
			Readonly: mount.ReadOnly || volumeAt.readOnly,
		})
	}
	if container.TerminationMessagePath == "" {
		return mounts, nil
	}
	file, err := m.opts.Dirs.EnsureTerminationLog(ctx, pod.UID, container.Name, restartCount)
	if err != nil {
		return nil, fmt.Errorf("making the termination message file of container %q: %w", container.Name, err)
	}
	return append(mounts, &runtimeapi.Mount{HostPath: file, ContainerPath: absolute(container.TerminationMessagePath)}), nil
}

// Devices returns the disks that a container gets. The pod must be prepared.
func (m *Manager) Devices(pod *v1.Pod, container *v1.Container) ([]*runtimeapi.Device, error) {
	places := m.state(pod.UID).places
	devices := make([]*runtimeapi.Device, 0, len(container.VolumeDevices))
	for _, device := range container.VolumeDevices {
		disk, ok := places[device.Name]
		if !ok || !disk.block {
			return nil, fmt.Errorf("cannot find volume %q to pass into container %q", device.Name, container.Name)
		}
		permissions := "mrw"
		if disk.readOnly {
			permissions = "r"
		}
		devices = append(devices, &runtimeapi.Device{HostPath: disk.path, ContainerPath: absolute(device.DevicePath), Permissions: permissions})
	}
	return devices, nil
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
