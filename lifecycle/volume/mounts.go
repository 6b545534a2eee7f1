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
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/host"
)

// MountInput is what the mounts of a container depend on.
type MountInput struct {
	Pod          *v1.Pod
	Container    *v1.Container
	RestartCount int32
	Env          []*runtimeapi.KeyValue
	// Images are the runtime's references of the images that are mounted, by volume.
	Images map[string]string
	// RecursiveReadOnly says that the pod's runtime can make read-only what is mounted below a mount.
	RecursiveReadOnly bool
}

// Mounts returns what the runtime mounts into a container: its volume mounts in the order of their definition, then the
// file for its termination message, which is made anew for each restart. Parts of volumes are looked for anew, with the
// container's environment. The pod must be prepared.
//
// An error is the user's to mend (the reason is CreateContainerConfigError) unless it is of class Unavailable.
func (m *Manager) Mounts(ctx context.Context, in MountInput) ([]*runtimeapi.Mount, error) {
	pod, container := in.Pod, in.Container
	places := m.state(pod.UID).places
	mounts := make([]*runtimeapi.Mount, 0, len(container.VolumeMounts)+1)
	for i := range container.VolumeMounts {
		made, err := m.mount(ctx, in, i, places)
		if err != nil {
			return nil, err
		}
		mounts = append(mounts, made)
	}
	if container.TerminationMessagePath == "" {
		return mounts, nil
	}
	file, err := m.opts.Dirs.EnsureTerminationLog(ctx, pod.UID, container.Name, in.RestartCount)
	if err != nil {
		return nil, fmt.Errorf("making the termination message file of container %q: %w", container.Name, err)
	}
	return append(mounts, &runtimeapi.Mount{HostPath: file, ContainerPath: absolute(container.TerminationMessagePath), SelinuxRelabel: true}), nil
}

// mount returns one mount of a container.
func (m *Manager) mount(ctx context.Context, in MountInput, i int, places map[string]place) (*runtimeapi.Mount, error) {
	pod, container, mount := in.Pod, in.Container, &in.Container.VolumeMounts[i]
	at := slices.IndexFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == mount.Name })
	ref, isImage := in.Images[mount.Name]
	volumeAt, ok := places[mount.Name]
	if at < 0 || !ok && !isImage {
		return nil, fmt.Errorf("cannot find volume %q to mount into container %q", mount.Name, container.Name)
	}
	volume := &pod.Spec.Volumes[at]
	part, err := subPath(mount, in.Env)
	if err != nil {
		return nil, err
	}
	propagation, err := toPropagation(mount.MountPropagation)
	if err != nil {
		return nil, fmt.Errorf("mounting volume %q into container %q: %w", mount.Name, container.Name, err)
	}
	recursive, err := recursiveReadOnly(mount, in.RecursiveReadOnly)
	if err != nil {
		return nil, fmt.Errorf("failed to resolve recursive read-only mode: %w", err)
	}
	out := &runtimeapi.Mount{
		HostPath: volumeAt.path, ContainerPath: absolute(mount.MountPath), Propagation: propagation,
		Readonly: mount.ReadOnly || volumeAt.readOnly || isImage, RecursiveReadOnly: recursive,
		// What is the host's own keeps its labels.
		SelinuxRelabel: (kindOf(volume) != "" || volumeAt.label) && !labelledBefore(container, i),
	}
	switch {
	case isImage:
		out.Image = &runtimeapi.ImageSpec{Image: ref, UserSpecifiedImage: volume.Image.Reference, Annotations: pod.Annotations}
		out.ImageSubPath = part
	case part != "":
		out.HostPath, err = m.part(ctx, pod.UID, volume, host.SubPath{HostPath: volumeAt.path, Path: part, Container: container.Name, Mount: i})
	}
	return out, err
}

// labelledBefore says whether an earlier mount of the container is of all of the same volume: a part of it may lie elsewhere.
func labelledBefore(container *v1.Container, i int) bool {
	return slices.ContainsFunc(container.VolumeMounts[:i], func(m v1.VolumeMount) bool {
		return m.Name == container.VolumeMounts[i].Name && m.SubPath == "" && m.SubPathExpr == ""
	})
}

// recursiveReadOnly says whether what is mounted below a mount shall be read-only, too. Messages are the kubelet's.
func recursiveReadOnly(mount *v1.VolumeMount, supported bool) (bool, error) {
	mode := ptr.Deref(mount.RecursiveReadOnly, v1.RecursiveReadOnlyDisabled)
	propagation := ptr.Deref(mount.MountPropagation, v1.MountPropagationNone)
	switch {
	case mode == v1.RecursiveReadOnlyDisabled:
		return false, nil
	case mode != v1.RecursiveReadOnlyIfPossible && mode != v1.RecursiveReadOnlyEnabled:
		return false, fmt.Errorf("unknown recursive read-only mode %q", mode)
	case !mount.ReadOnly:
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not read-only", mount.Name)
	case propagation != v1.MountPropagationNone:
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not compatible with propagation %q", mount.Name, propagation)
	case mode == v1.RecursiveReadOnlyEnabled && !supported:
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not supported by the runtime", mount.Name)
	default:
		return supported, nil
	}
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
