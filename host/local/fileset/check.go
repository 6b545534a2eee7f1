// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package fileset

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"github.com/containerd/errdefs"
)

// Limits of paths, the kernel's.
const (
	maxElement = 255
	maxPath    = 4096
)

// Check says whether a file may have this path: relative, of elements that are neither empty nor too long nor "..", and the
// first does not begin with "..", which is how the writer's own names begin. An error is of class InvalidArgument.
func Check(name string) error {
	clean := path.Clean(name)
	problem := ""
	switch {
	case name == "" || clean == ".":
		problem = "must not be empty"
	case strings.ContainsRune(name, 0):
		problem = "must not contain NUL"
	case path.IsAbs(name):
		problem = "must be relative"
	case len(name) > maxPath:
		problem = fmt.Sprintf("must not be longer than %d bytes", maxPath)
	case strings.HasPrefix(clean, ownPrefix):
		problem = "must not begin with '..'"
	}
	for element := range strings.SplitSeq(name, "/") {
		switch {
		case element == "..":
			problem = "must not contain '..'"
		case len(element) > maxElement:
			problem = fmt.Sprintf("must not have an element longer than %d bytes", maxElement)
		}
	}
	if problem != "" {
		return fmt.Errorf("path %q of a file %s: %w", name, problem, errdefs.ErrInvalidArgument)
	}
	return nil
}

// index checks paths and returns the files by clean path. No path may be that of two files, or of a file and a directory.
func index(files []File) (map[string]File, error) {
	out := make(map[string]File, len(files))
	for _, f := range files {
		if err := Check(f.Path); err != nil {
			return nil, err
		}
		clean := path.Clean(f.Path)
		if _, twice := out[clean]; twice {
			return nil, fmt.Errorf("path %q is that of two files: %w", clean, errdefs.ErrInvalidArgument)
		}
		out[clean] = f
	}
	for name := range out {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if _, both := out[dir]; both {
				return nil, fmt.Errorf("path %q is that of a file and of a directory: %w", dir, errdefs.ErrInvalidArgument)
			}
		}
	}
	return out, nil
}

// owner returns the owner and group of a file.
func owner(info fs.FileInfo) (uid, gid int) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid), int(st.Gid)
	}
	return Keep, Keep
}
