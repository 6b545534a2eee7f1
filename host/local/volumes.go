// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/containerd/errdefs"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/host"
)

// emptyDirPlugin is the kubelet's directory name for volumes of that kind.
const emptyDirPlugin = "kubernetes.io~empty-dir"

// emptyDirMode lets containers of every user write.
const emptyDirMode = 0o777

// EnsureVolume makes a volume ready and returns its path.
func (h *Host) EnsureVolume(_ context.Context, uid types.UID, volume host.Volume) (string, error) {
	if err := errors.Join(checkUID(uid), checkLabel("volume", volume.Name)); err != nil {
		return "", err
	}
	switch {
	case volume.EmptyDir && volume.HostPath != "":
		return "", fmt.Errorf("volume %q has two sources: %w", volume.Name, errdefs.ErrInvalidArgument)
	case volume.EmptyDir:
		defer h.lockPod(uid)()
		return h.ensureEmptyDir(uid, volume.Name)
	default:
		return volume.HostPath, ensureHostPath(volume.HostPath, volume.HostPathType)
	}
}

// ensureEmptyDir makes the directory under another name and renames it, so that whatever exists under its own name has
// the right mode. One that exists belongs to the pod, which may have changed it.
func (h *Host) ensureEmptyDir(uid types.UID, name string) (string, error) {
	plugin := filepath.Join(podDir(uid), volumesDir, emptyDirPlugin)
	if err := ensureDirs(h.root, plugin, privateDirMode); err != nil {
		return "", err
	}
	path := filepath.Join(plugin, name)
	info, err := h.root.Lstat(path)
	switch {
	case err == nil && info.IsDir():
		return filepath.Join(h.rootDir, path), nil
	case err == nil:
		return "", fmt.Errorf("%s is not a directory: %w", filepath.Join(h.rootDir, path), errdefs.ErrFailedPrecondition)
	case !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("making volume %q: %w", name, err)
	}
	unfinished := filepath.Join(plugin, "."+name)
	if err := ensureDir(h.root, unfinished, emptyDirMode); err != nil {
		return "", err
	}
	if err := errors.Join(h.root.Chmod(unfinished, emptyDirMode), h.root.Rename(unfinished, path)); err != nil {
		return "", fmt.Errorf("making volume %q: %w", name, err)
	}
	return filepath.Join(h.rootDir, path), nil
}
