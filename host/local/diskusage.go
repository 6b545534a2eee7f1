// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// blockBytes is the unit in which the kernel counts what a file takes.
	blockBytes = 512
	// readEntries is how many names of a directory are read at once.
	readEntries = 512
	// maxDepth is how deep directories are looked into. Each level holds a file open. What is deeper does not count.
	maxDepth = 512
)

// usage adds up what files take, in the way of du: files with several names count once, other file systems not at all.
type usage struct {
	device uint64
	bytes  int64
	// linked are the files with several names that were counted.
	linked map[uint64]struct{}
}

// diskUsage returns what a directory of root takes with all that is in it. A missing one takes nothing. Nothing is followed, so that
// whoever can write there leads it nowhere. What vanishes meanwhile does not count.
func diskUsage(ctx context.Context, root *os.Root, path string) (*usage, error) {
	dir, err := openDirectory(root, path)
	if errors.Is(err, fs.ErrNotExist) {
		return &usage{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return nil, fmt.Errorf("looking at %s: %w", path, err)
	}
	u := &usage{device: st.Dev, bytes: st.Blocks * blockBytes, linked: map[uint64]struct{}{}}
	return u, u.add(ctx, dir, 1)
}

// openDirectory opens a directory of root for reading; a link is none.
func openDirectory(root *os.Root, path string) (*os.File, error) {
	return root.OpenFile(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
}

// add counts what is in an open directory.
func (u *usage) add(ctx context.Context, dir *os.File, depth int) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		names, err := dir.Readdirnames(readEntries)
		for _, name := range names {
			if err := u.addEntry(ctx, dir, name, depth); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return fmt.Errorf("reading a directory: %w", err)
		}
	}
}

func (u *usage) addEntry(ctx context.Context, dir *os.File, name string, depth int) error {
	var st unix.Stat_t
	err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking at a file: %w", err)
	}
	if st.Dev != u.device || !u.first(&st) {
		return nil
	}
	u.bytes += st.Blocks * blockBytes
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || depth >= maxDepth {
		return nil
	}
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening a directory: %w", err)
	}
	below := os.NewFile(uintptr(fd), name)
	defer below.Close()
	return u.add(ctx, below, depth+1)
}

// first says whether a file was not counted under another name.
func (u *usage) first(st *unix.Stat_t) bool {
	if st.Nlink < 2 || st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return true
	}
	_, again := u.linked[st.Ino]
	u.linked[st.Ino] = struct{}{}
	return !again
}
