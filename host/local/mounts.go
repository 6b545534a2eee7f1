// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
)

// mountsBelow returns what is mounted at and below a directory of the root directory, in the order of mounting.
func (h *Host) mountsBelow(rel string) ([]*mountinfo.Info, error) {
	file, err := os.Open(filepath.Join(h.systemRoot, "proc/self/mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("reading what is mounted: %w", err)
	}
	defer file.Close()
	mounts, err := mountinfo.GetMountsFromReader(file, mountinfo.PrefixFilter(filepath.Join(h.realRoot, rel)))
	if err != nil {
		return nil, fmt.Errorf("reading what is mounted: %w", err)
	}
	return mounts, nil
}

// isMounted says whether something is mounted at a path in the root directory.
func (h *Host) isMounted(rel string) (bool, error) {
	mounts, err := h.mountsBelow(rel)
	point := filepath.Join(h.realRoot, rel)
	return slices.ContainsFunc(mounts, func(m *mountinfo.Info) bool { return m.Mountpoint == point }), err
}

// unmountPod unmounts what the host mounted below a pod's directory. While something else is mounted there, it unmounts
// nothing (FailedPrecondition).
func (h *Host) unmountPod(uid types.UID) error {
	mounts, err := h.mountsBelow(podDir(uid))
	if err != nil {
		return err
	}
	var foreign []string
	for _, m := range mounts {
		if !h.isOwnMount(uid, m) {
			foreign = append(foreign, m.Mountpoint)
		}
	}
	if len(foreign) > 0 {
		return fmt.Errorf("%s is mounted below the directory of pod %s: %w", strings.Join(foreign, ", "), uid, errdefs.ErrFailedPrecondition)
	}
	for _, m := range slices.Backward(mounts) {
		rel, err := filepath.Rel(h.realRoot, m.Mountpoint)
		if err != nil {
			return fmt.Errorf("unmounting %s: %w", m.Mountpoint, err)
		}
		if err := h.unmount(rel); err != nil {
			return err
		}
	}
	return nil
}

// isOwnMount says whether the host mounts such a thing at such a place: memory for a volume, a local volume, a part of a volume, or a path
// of the host with what is mounted below it.
func (h *Host) isOwnMount(uid types.UID, m *mountinfo.Info) bool {
	rel, err := filepath.Rel(filepath.Join(h.realRoot, podDir(uid)), m.Mountpoint)
	if err != nil {
		return false
	}
	elements := strings.Split(rel, "/")
	switch {
	case len(elements) == 3 && elements[0] == volumesDir:
		own := m.FSType == tmpfs || m.FSType == hugetlbfs || elements[1] == pluginPrefix+localVolumePlugin
		return own && strings.HasPrefix(elements[1], pluginPrefix) && checkLabel("volume", elements[2]) == nil
	case len(elements) == 4 && elements[0] == subPathsDir:
		_, err := strconv.ParseUint(elements[3], 10, 32)
		return err == nil && checkLabel("volume", elements[1]) == nil && checkLabel("container", elements[2]) == nil
	case len(elements) >= 3 && elements[0] == pinsDir:
		_, err := strconv.ParseUint(elements[2], 10, 32)
		return err == nil && checkContainerName(elements[1]) == nil
	default:
		return false
	}
}

// unmount takes the topmost mount off a path in the root directory. If it is in use, it is detached: whoever uses it may go
// on, and it vanishes with the last of them.
func (h *Host) unmount(rel string) error {
	parent, err := h.root.Open(filepath.Dir(rel))
	if err != nil {
		return fmt.Errorf("unmounting %s: %w", h.real(rel), err)
	}
	defer parent.Close()
	point := filepath.Join(fdPath(parent), filepath.Base(rel))
	err = unix.Unmount(point, unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EBUSY) {
		err = unix.Unmount(point, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
	}
	if err != nil && !errors.Is(err, unix.EINVAL) { // which says that nothing is mounted there
		return fmt.Errorf("unmounting %s: %w", h.real(rel), err)
	}
	return nil
}
