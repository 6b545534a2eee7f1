// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"fmt"

	"github.com/containerd/errdefs"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/host/hostpb"
)

func volumeToWire(uid types.UID, v host.Volume) *hostpb.EnsureVolumeRequest {
	out := &hostpb.EnsureVolumeRequest{Uid: string(uid), Name: v.Name}
	switch {
	case v.EmptyDir:
		out.Source = &hostpb.EnsureVolumeRequest_EmptyDir{EmptyDir: &hostpb.EmptyDirSource{
			Memory: v.Memory, SizeBytes: v.SizeBytes, HugePageBytes: v.HugePageBytes, Mode: v.Mode, FsGroup: v.FSGroup,
		}}
	case v.Local != nil:
		out.Source = &hostpb.EnsureVolumeRequest_Local{Local: &hostpb.LocalSource{
			Path: v.Local.Path, Block: v.Local.Block, FsGroup: v.Local.FSGroup, OnRootMismatch: v.Local.OnRootMismatch,
			Sole: v.Local.Sole, MountOptions: v.Local.MountOptions,
		}}
	default:
		out.Source = &hostpb.EnsureVolumeRequest_HostPath{HostPath: &hostpb.HostPathSource{Path: v.HostPath, Type: v.HostPathType}}
	}
	return out
}

func volumeFromWire(r *hostpb.EnsureVolumeRequest) (host.Volume, error) {
	out := host.Volume{Name: r.GetName()}
	switch source := r.GetSource().(type) {
	case *hostpb.EnsureVolumeRequest_EmptyDir:
		dir := source.EmptyDir
		out.EmptyDir, out.Memory, out.SizeBytes, out.HugePageBytes = true, dir.GetMemory(), dir.GetSizeBytes(), dir.GetHugePageBytes()
		out.Mode, out.FSGroup = dir.Mode, dir.FsGroup
	case *hostpb.EnsureVolumeRequest_HostPath:
		out.HostPath, out.HostPathType = source.HostPath.GetPath(), source.HostPath.GetType()
	case *hostpb.EnsureVolumeRequest_Local:
		local := source.Local
		out.Local = &host.LocalVolume{
			Path: local.GetPath(), Block: local.GetBlock(), FSGroup: local.FsGroup, OnRootMismatch: local.GetOnRootMismatch(),
			Sole: local.GetSole(), MountOptions: local.GetMountOptions(),
		}
	default:
		return out, fmt.Errorf("volume %q has a source that this host does not know; upgrade the host: %w", r.GetName(), errdefs.ErrNotImplemented)
	}
	return out, nil
}

// kindsToWire are the kinds of volumes in both forms.
var kindsToWire = map[host.VolumeKind]hostpb.VolumeKind{
	"":                     hostpb.VolumeKind_VOLUME_KIND_UNSPECIFIED,
	host.EmptyDirVolume:    hostpb.VolumeKind_VOLUME_KIND_EMPTY_DIR,
	host.ConfigMapVolume:   hostpb.VolumeKind_VOLUME_KIND_CONFIG_MAP,
	host.SecretVolume:      hostpb.VolumeKind_VOLUME_KIND_SECRET,
	host.DownwardAPIVolume: hostpb.VolumeKind_VOLUME_KIND_DOWNWARD_API,
	host.ProjectedVolume:   hostpb.VolumeKind_VOLUME_KIND_PROJECTED,
}

func kindFromWire(wire hostpb.VolumeKind, volume string) (host.VolumeKind, error) {
	for kind, w := range kindsToWire {
		if w == wire {
			return kind, nil
		}
	}
	return "", fmt.Errorf("volume %q is of a kind that this host does not know; upgrade the host: %w", volume, errdefs.ErrNotImplemented)
}

func fileSetToWire(uid types.UID, set host.FileSet) *hostpb.WriteFilesRequest {
	out := &hostpb.WriteFilesRequest{
		Uid: string(uid), Volume: set.Volume, Kind: kindsToWire[set.Kind], SizeBytes: set.SizeBytes,
		Files: make([]*hostpb.VolumeFile, 0, len(set.Files)), FsGroup: set.FSGroup, MountPoints: set.MountPoints,
	}
	for _, f := range set.Files {
		out.Files = append(out.Files, &hostpb.VolumeFile{Path: f.Path, Data: f.Data, Mode: f.Mode, User: f.User})
	}
	return out
}

func fileSetFromWire(r *hostpb.WriteFilesRequest) (host.FileSet, error) {
	kind, err := kindFromWire(r.GetKind(), r.GetVolume())
	out := host.FileSet{
		Volume: r.GetVolume(), Kind: kind, SizeBytes: r.GetSizeBytes(), FSGroup: r.FsGroup, MountPoints: r.GetMountPoints(),
	}
	for _, f := range r.GetFiles() {
		out.Files = append(out.Files, host.File{Path: f.GetPath(), Data: f.GetData(), Mode: f.GetMode(), User: f.User})
	}
	return out, err
}

func subPathToWire(uid types.UID, p host.SubPath) *hostpb.EnsureSubPathRequest {
	return &hostpb.EnsureSubPathRequest{
		Uid: string(uid), Volume: p.Volume, Kind: kindsToWire[p.Kind], HostPath: p.HostPath, Path: p.Path,
		Container: p.Container, Mount: int32(p.Mount), //nolint:gosec // no container has 2^31 mounts
	}
}

func subPathFromWire(r *hostpb.EnsureSubPathRequest) (host.SubPath, error) {
	kind, err := kindFromWire(r.GetKind(), r.GetVolume())
	return host.SubPath{
		Volume: r.GetVolume(), Kind: kind, HostPath: r.GetHostPath(), Path: r.GetPath(),
		Container: r.GetContainer(), Mount: int(r.GetMount()),
	}, err
}

func volumeFileToWire(uid types.UID, f host.VolumeFile) *hostpb.ReadVolumeFileRequest {
	return &hostpb.ReadVolumeFileRequest{Uid: string(uid), Volume: f.Volume, Kind: kindsToWire[f.Kind], Path: f.Path}
}

func volumeFileFromWire(r *hostpb.ReadVolumeFileRequest) (host.VolumeFile, error) {
	kind, err := kindFromWire(r.GetKind(), r.GetVolume())
	return host.VolumeFile{Volume: r.GetVolume(), Kind: kind, Path: r.GetPath()}, err
}
