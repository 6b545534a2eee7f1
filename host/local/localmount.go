// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
)

// mountOption is what an option of mount(8) changes of a bind mount, in the bits of mount_setattr(2).
type mountOption struct{ set, clear uint64 }

// mountOptions are the options that a bind mount can have. Those that allow what is allowed anyway change nothing: a mount never permits
// more than the directory that it is of.
var mountOptions = map[string]mountOption{
	"bind": {}, "defaults": {}, "rw": {}, "suid": {}, "dev": {}, "exec": {}, "symfollow": {}, "diratime": {},
	"ro":          {set: unix.MOUNT_ATTR_RDONLY},
	"nosuid":      {set: unix.MOUNT_ATTR_NOSUID},
	"nodev":       {set: unix.MOUNT_ATTR_NODEV},
	"noexec":      {set: unix.MOUNT_ATTR_NOEXEC},
	"nosymfollow": {set: unix.MOUNT_ATTR_NOSYMFOLLOW},
	"nodiratime":  {set: unix.MOUNT_ATTR_NODIRATIME},
	"noatime":     {set: unix.MOUNT_ATTR_NOATIME, clear: unix.MOUNT_ATTR__ATIME},
	"strictatime": {set: unix.MOUNT_ATTR_STRICTATIME, clear: unix.MOUNT_ATTR__ATIME},
	"relatime":    {set: unix.MOUNT_ATTR_RELATIME, clear: unix.MOUNT_ATTR__ATIME},
}

// mountAttr is what all the options change together. Of those that exclude each other the last counts.
func mountAttr(options []string) (*unix.MountAttr, error) {
	out := &unix.MountAttr{}
	for _, name := range options {
		option, known := mountOptions[name]
		if !known {
			return nil, fmt.Errorf("mount option %q is not one that a directory can be mounted with: %w", name, errdefs.ErrFailedPrecondition)
		}
		out.Attr_set = out.Attr_set&^option.clear | option.set
		out.Attr_clr |= option.clear
	}
	return out, nil
}

// localMountPath is where the host mounts a local volume that has options, relative to the root directory: the kubelet's place.
func localMountPath(uid types.UID, name string) string {
	return filepath.Join(podDir(uid), volumesDir, pluginPrefix+localVolumePlugin, name)
}

// mountLocal mounts a directory for a pod, without what is mounted below it, and returns where. A mount that exists stays as it is. There is
// never one without the options.
func (h *Host) mountLocal(uid types.UID, name string, source *os.File, attr *unix.MountAttr) (string, error) {
	defer h.lockPod(uid)()
	target := localMountPath(uid, name)
	if err := ensureDirs(h.root, filepath.Dir(target), privateDirMode); err != nil {
		return "", err
	}
	mounted, err := h.isMounted(target)
	if err != nil || mounted {
		return h.real(target), err
	}
	point, err := h.mountPoint(source, target)
	if err != nil {
		return "", err
	}
	defer point.Close()
	err = graft(source, point, 0, attr)
	if errors.Is(err, unix.ENOSYS) {
		err = fmt.Errorf("mount options need Linux 5.12 or later: %w", errdefs.ErrFailedPrecondition)
	}
	return h.real(target), err
}

// graft mounts an open file or directory on another one, with attributes that it has from the beginning. The flag AT_RECURSIVE is for what
// is mounted below it, too.
func graft(source, point *os.File, flags uint, attr *unix.MountAttr) error {
	flags |= unix.AT_EMPTY_PATH
	fd, err := unix.OpenTree(int(source.Fd()), "", flags|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.MountSetattr(fd, "", flags, attr); err != nil {
		return err
	}
	return unix.MoveMount(fd, "", int(point.Fd()), "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}
