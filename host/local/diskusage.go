// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// blockBytes is the unit in which the kernel counts what a file takes.
const blockBytes = 512

// usage adds up what files take, in the way of du: other file systems do not count, and each name of a file with several counts its
// share, which is all of the file if all its names are there.
type usage struct {
	device uint64
	bytes  int64
}

// diskUsage returns what a directory of root takes with all that is in it. A missing one takes nothing. Nothing is followed, so that
// whoever can write there leads it nowhere. What vanishes meanwhile does not count. If ctx ends, it returns what was counted until then
// with the error.
func diskUsage(ctx context.Context, root *os.Root, path string) (usage, error) {
	dir, err := openDirectory(root, path)
	if errors.Is(err, fs.ErrNotExist) {
		return usage{}, nil
	}
	if err != nil {
		return usage{}, err
	}
	defer dir.Close()
	st, err := statOf(dir)
	if err != nil {
		return usage{}, err
	}
	u := usage{device: st.Dev}
	t := tree{
		enter: func(st *unix.Stat_t) bool {
			if st.Dev != u.device {
				return false
			}
			u.bytes += st.Blocks * blockBytes
			return true
		},
		file: func(_ *os.File, _ string, st *unix.Stat_t) error {
			if st.Dev == u.device { // files can be mounted as well
				u.bytes += st.Blocks * blockBytes / max(1, int64(st.Nlink)) //nolint:gosec // no file has 2^63 names
			}
			return nil
		},
		leave: func(*os.File) error { return nil },
	}
	err = t.walk(ctx, dir)
	return u, err
}

// openDirectory opens a directory of root for reading; a link is none.
func openDirectory(root *os.Root, path string) (*os.File, error) {
	return root.OpenFile(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
}
