// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// What the group of a volume can do with what is in it, the kubelet's bits.
const (
	groupFile      = 0o660
	groupDirectory = unix.S_ISGID | groupFile | 0o110
)

// giveToGroup makes an open directory, with everything in it, belong to a group that can read and write it. The directory itself comes last:
// if that is as it should be, so is the rest, unless somebody changed it since. Nothing is followed.
func giveToGroup(ctx context.Context, dir *os.File, group int, onMismatch bool) error {
	if onMismatch {
		st, err := statOf(dir)
		if err != nil {
			return err
		}
		if belongs(st, group) {
			return nil
		}
	}
	t := tree{
		enter: func(*unix.Stat_t) bool { return true },
		file:  func(dir *os.File, name string, _ *unix.Stat_t) error { return giveEntry(dir, name, group) },
		leave: func(dir *os.File) error { return give(dir, group) },
	}
	return t.walk(ctx, dir)
}

// belongs says whether a file is the group's already.
func belongs(st *unix.Stat_t, group int) bool {
	bits := uint32(groupFile)
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		bits = groupDirectory
	}
	return int(st.Gid) == group && st.Mode&bits == bits
}

// giveEntry makes an entry of a directory the group's. One that became a directory meanwhile is left to the next time.
func giveEntry(dir *os.File, name string, group int) error {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening %q: %w", name, err)
	}
	entry := os.NewFile(uintptr(fd), name)
	defer entry.Close()
	return give(entry, group)
}

// give makes one open file the group's. Links have no mode.
func give(file *os.File, group int) error {
	st, err := statOf(file)
	if err != nil {
		return err
	}
	if int(st.Gid) != group {
		if err := unix.Fchownat(int(file.Fd()), "", -1, group, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return fmt.Errorf("giving %q to group %d: %w", file.Name(), group, err)
		}
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return nil
	}
	bits := uint32(groupFile)
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		bits = groupDirectory
	}
	// A change of the group may have cleared special bits, so that a mode that looks right is set all the same.
	if st.Mode&bits == bits && int(st.Gid) == group {
		return nil
	}
	if err := unix.Fchmodat(unix.AT_FDCWD, fdPath(file), (st.Mode&0o7777)|bits, 0); err != nil {
		return fmt.Errorf("setting the mode of %q: %w", file.Name(), err)
	}
	return nil
}
