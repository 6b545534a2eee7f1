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
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/host"
)

// pluginPrefix begins the name of the directory for the volumes of one kind, as in the kubelet.
const pluginPrefix = "kubernetes.io~"

// Modes of emptyDirs that have none of their own: containers of every user can write.
const (
	emptyDirMode = 0o777
	memoryMode   = unix.S_ISVTX | emptyDirMode
)

// groupWrite is what the group gets that owns a volume, for the files in it handed on: the kubelet's bits for a directory.
const groupWrite = unix.S_ISGID | 0o770

// EnsureVolume makes a volume ready and returns where it is.
func (h *Host) EnsureVolume(ctx context.Context, uid types.UID, volume host.Volume) (host.ReadyVolume, error) {
	if err := errors.Join(checkUID(uid), checkLabel("volume", volume.Name), checkVolume(volume)); err != nil {
		return host.ReadyVolume{}, err
	}
	if volume.Local != nil {
		return h.ensureLocal(ctx, uid, volume)
	}
	if !volume.EmptyDir {
		return host.ReadyVolume{Path: volume.HostPath}, ensureHostPath(volume.HostPath, volume.HostPathType, volume.NoLinks)
	}
	return host.ReadyVolume{Path: h.real(volumePath(uid, host.EmptyDirVolume, volume.Name))}, h.ensureEmptyDir(uid, volume)
}

func (h *Host) ensureEmptyDir(uid types.UID, volume host.Volume) error {
	defer h.lockPod(uid)()
	dir := directory{path: volumePath(uid, host.EmptyDirVolume, volume.Name), mode: emptyDirMode, gid: keepID}
	if volume.Memory {
		dir.mode = memoryMode
	}
	if volume.Mode != nil {
		dir.mode = *volume.Mode
	}
	if volume.FSGroup != nil {
		dir.mode, dir.gid = dir.mode|groupWrite, int(*volume.FSGroup)
	}
	if volume.HugePageBytes > 0 {
		return h.ensureHugePages(dir, volume.HugePageBytes, volume.SizeBytes)
	}
	if volume.Memory {
		return h.ensureMemory(dir, volume.SizeBytes)
	}
	return h.ensureDirectory(dir)
}

func checkVolume(v host.Volume) error {
	switch {
	case v.EmptyDir && v.HostPath != "" || v.Local != nil && (v.EmptyDir || v.HostPath != ""):
		return fmt.Errorf("volume %q has two sources: %w", v.Name, errdefs.ErrInvalidArgument)
	case v.Mode != nil && *v.Mode > 0o7777:
		return fmt.Errorf("mode %o of volume %q is not one: %w", *v.Mode, v.Name, errdefs.ErrInvalidArgument)
	case v.SizeBytes < 0 || v.HugePageBytes < 0:
		return fmt.Errorf("size %d of volume %q is negative: %w", min(v.SizeBytes, v.HugePageBytes), v.Name, errdefs.ErrInvalidArgument)
	case v.Local != nil:
		return checkID("group", v.Local.FSGroup)
	default:
		return checkID("group", v.FSGroup)
	}
}

// checkID checks the number of a user or group.
func checkID(what string, id *int64) error {
	if id != nil && (*id < 0 || *id > 1<<31-1) {
		return fmt.Errorf("%s %d is not between 0 and 2147483647: %w", what, *id, errdefs.ErrInvalidArgument)
	}
	return nil
}

// volumePath is the directory of a volume, relative to the root directory.
func volumePath(uid types.UID, kind host.VolumeKind, name string) string {
	return filepath.Join(podDir(uid), volumesDir, pluginPrefix+string(kind), name)
}

// real is the path on the host of something in the root directory.
func (h *Host) real(path string) string { return filepath.Join(h.rootDir, path) }

// keepID leaves the owner or group to the process.
const keepID = -1

// directory is how a directory is made, relative to the root directory.
type directory struct {
	path string
	mode uint32
	gid  int
}

// ensureDirectory makes the directory under another name and renames it, so that whatever exists under its own name has
// the right mode and group. One that exists belongs to the pod, which may have changed it.
func (h *Host) ensureDirectory(d directory) error {
	parent, name := filepath.Split(d.path)
	if err := ensureDirs(h.root, filepath.Clean(parent), privateDirMode); err != nil {
		return err
	}
	info, err := h.root.Lstat(d.path)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return fmt.Errorf("%s is not a directory: %w", h.real(d.path), errdefs.ErrFailedPrecondition)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("making volume %q: %w", name, err)
	}
	unfinished := filepath.Join(parent, "."+name)
	if err := ensureDir(h.root, unfinished, privateDirMode); err != nil {
		return err
	}
	err = h.root.Lchown(unfinished, keepID, d.gid)
	if err == nil {
		err = h.root.Chmod(unfinished, toFileMode(d.mode))
	}
	if err == nil {
		err = h.root.Rename(unfinished, d.path)
	}
	if err != nil {
		return fmt.Errorf("making volume %q: %w", name, err)
	}
	return nil
}

// toFileMode turns the kernel's permission bits into Go's.
func toFileMode(mode uint32) fs.FileMode {
	out := fs.FileMode(mode & 0o777)
	for bit, flag := range map[uint32]fs.FileMode{
		unix.S_ISUID: fs.ModeSetuid, unix.S_ISGID: fs.ModeSetgid, unix.S_ISVTX: fs.ModeSticky,
	} {
		if mode&bit != 0 {
			out |= flag
		}
	}
	return out
}
