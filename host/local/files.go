// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/containerd/errdefs"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/host/local/fileset"
)

// mountPointMode is the mode of directories that something else is mounted on, the kubelet's.
const mountPointMode = 0o755

// WriteFiles makes a volume have exactly those files.
func (h *Host) WriteFiles(_ context.Context, uid types.UID, set host.FileSet) (string, error) {
	if err := errors.Join(checkUID(uid), checkLabel("volume", set.Volume), checkFileSet(set)); err != nil {
		return "", err
	}
	files := make([]fileset.File, 0, len(set.Files))
	for _, f := range set.Files {
		files = append(files, fileset.File{Path: f.Path, Data: f.Data, Mode: fs.FileMode(f.Mode), UID: numberOf(f.User)})
	}
	defer h.lockPod(uid)()
	at := directory{path: volumePath(uid, set.Kind, set.Volume), mode: emptyDirMode, gid: numberOf(set.FSGroup)}
	if set.FSGroup != nil {
		at.mode |= groupWrite
	}
	if err := h.ensureFileSet(set, at); err != nil {
		return "", err
	}
	dir, err := h.root.OpenRoot(at.path)
	if err != nil {
		return "", fmt.Errorf("opening the directory of volume %q: %w", set.Volume, err)
	}
	defer dir.Close()
	for _, point := range set.MountPoints {
		if err := ensureDirs(dir, point, mountPointMode); err != nil {
			return "", err
		}
	}
	if err := h.files.Write(dir, files, at.gid); err != nil {
		return "", fmt.Errorf("writing volume %q: %w", set.Volume, err)
	}
	return h.real(at.path), nil
}

// ensureFileSet makes the directory of the files. Only those of ConfigMaps may be on disk.
func (h *Host) ensureFileSet(set host.FileSet, at directory) error {
	if set.Kind == host.ConfigMapVolume {
		return h.ensureDirectory(at)
	}
	at.mode |= memoryMode
	return h.ensureMemory(at, set.SizeBytes)
}

func checkFileSet(set host.FileSet) error {
	switch set.Kind {
	case host.ConfigMapVolume, host.SecretVolume, host.DownwardAPIVolume, host.ProjectedVolume:
	default:
		return fmt.Errorf("volume %q is of kind %q, which has no files to write: %w", set.Volume, set.Kind, errdefs.ErrInvalidArgument)
	}
	if len(set.Files) > host.MaxFileSetFiles {
		return fmt.Errorf("volume %q has %d files; at most %d can be written: %w", set.Volume, len(set.Files), host.MaxFileSetFiles, errdefs.ErrInvalidArgument)
	}
	if set.SizeBytes < 0 {
		return fmt.Errorf("size %d of volume %q is negative: %w", set.SizeBytes, set.Volume, errdefs.ErrInvalidArgument)
	}
	size := 0
	for _, f := range set.Files {
		size += len(f.Data)
		if err := errors.Join(fileset.Check(f.Path), checkID("user", f.User)); err != nil {
			return err
		}
		if f.Mode > uint32(fs.ModePerm) {
			return fmt.Errorf("mode %o of file %q is not one of permissions: %w", f.Mode, f.Path, errdefs.ErrInvalidArgument)
		}
	}
	if size > host.MaxFileSetBytes {
		return fmt.Errorf("volume %q has %d bytes; at most %d can be written: %w", set.Volume, size, host.MaxFileSetBytes, errdefs.ErrInvalidArgument)
	}
	for _, point := range set.MountPoints {
		if err := fileset.Check(point); err != nil {
			return err
		}
	}
	return checkID("group", set.FSGroup)
}

// numberOf is the number of a user or group, keepID for none.
func numberOf(id *int64) int {
	if id == nil {
		return keepID
	}
	return int(*id)
}
