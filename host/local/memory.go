// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// tmpfs is the kernel's name for a memory-backed file system.
const tmpfs = "tmpfs"

// ensureMemory makes a directory and mounts a memory-backed file system on it. One that is mounted there is left as it is.
func (h *Host) ensureMemory(d directory, size int64) error {
	return h.ensureMounted(d, size, nil, mountMemory)
}

// ensureMounted makes a directory and mounts a file system on it that has the wanted mode, group and size from its first moment.
func (h *Host) ensureMounted(d directory, size int64, options []string, mount func(target *os.File, options []string) error) error {
	if err := h.ensureDirectory(directory{path: d.path, mode: privateDirMode, gid: keepID}); err != nil {
		return err
	}
	target, err := h.root.Open(d.path)
	if err != nil {
		return fmt.Errorf("opening the directory of a volume: %w", err)
	}
	defer target.Close()
	mounted, err := h.isMounted(d.path)
	if err != nil || mounted {
		return err
	}
	options = append(options, fmt.Sprintf("mode=%04o", d.mode))
	if size > 0 {
		options = append(options, fmt.Sprintf("size=%d", size))
	}
	if d.gid != keepID {
		options = append(options, fmt.Sprintf("gid=%d", d.gid))
	}
	if err := mount(target, options); err != nil {
		return fmt.Errorf("mounting memory at %s: %w", h.real(d.path), err)
	}
	return nil
}

// mountMemory keeps the content from being swapped to disk where the kernel can do that (Linux 6.4).
func mountMemory(target *os.File, options []string) error {
	err := unix.Mount(tmpfs, fdPath(target), tmpfs, 0, strings.Join(append(options, "noswap"), ","))
	if errors.Is(err, unix.EINVAL) {
		err = unix.Mount(tmpfs, fdPath(target), tmpfs, 0, strings.Join(options, ","))
	}
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%w; the host process needs CAP_SYS_ADMIN for volumes in memory: %w", err, errdefs.ErrFailedPrecondition)
	}
	return err
}

// fdPath names an open file to calls that take a path. No name in it can be changed by others.
func fdPath(file *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", file.Fd()) }
