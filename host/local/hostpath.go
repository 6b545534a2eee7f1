// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// Types of hostPath volumes in the API's words.
const (
	hostPathUnset             = ""
	hostPathDirectoryOrCreate = "DirectoryOrCreate"
	hostPathDirectory         = "Directory"
	hostPathFileOrCreate      = "FileOrCreate"
	hostPathFile              = "File"
	hostPathSocket            = "Socket"
	hostPathCharDevice        = "CharDevice"
	hostPathBlockDevice       = "BlockDevice"
)

// expectedType is what each type must find, and what the kubelet's error calls it.
var expectedType = map[string]struct{ kind, called string }{
	hostPathDirectoryOrCreate: {hostPathDirectory, "directory"},
	hostPathDirectory:         {hostPathDirectory, "directory"},
	hostPathFileOrCreate:      {hostPathFile, "file"},
	hostPathFile:              {hostPathFile, "file"},
	hostPathSocket:            {hostPathSocket, "socket file"},
	hostPathCharDevice:        {hostPathCharDevice, "character device"},
	hostPathBlockDevice:       {hostPathBlockDevice, "block device"},
}

// ensureHostPath checks that a path of the host is of the wanted type, and makes it where the type says so. Messages are
// the kubelet's. Without a type nothing is checked: the runtime makes a missing directory.
func ensureHostPath(path, wanted string, noLinks bool) error {
	if err := checkHostPath(path); err != nil {
		return err
	}
	if wanted == hostPathUnset {
		return nil
	}
	expected, known := expectedType[wanted]
	if !known {
		return fmt.Errorf("%s is an invalid volume type: %w", wanted, errdefs.ErrInvalidArgument)
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		switch wanted {
		case hostPathDirectoryOrCreate:
			return makeHostDirectory(path, noLinks)
		case hostPathFileOrCreate:
			return makeHostFile(path, noLinks)
		}
	}
	if err != nil {
		return fmt.Errorf("hostPath type check failed, %s is not a %s, unable to determine its type: %w: %w", path, expected.called, err, errdefs.ErrFailedPrecondition)
	}
	if kind := typeOf(info.Mode()); kind != expected.kind {
		return fmt.Errorf("hostPath type check failed: %s is not a %s, it's a %s: %w", path, expected.called, kind, errdefs.ErrFailedPrecondition)
	}
	return nil
}

func checkHostPath(path string) error {
	if !filepath.IsAbs(path) || slices.Contains(strings.Split(path, "/"), "..") {
		return fmt.Errorf("invalid HostPath `%s`: it must be absolute and must not contain '..': %w", path, errdefs.ErrInvalidArgument)
	}
	return nil
}

// typeOf returns the API's word for what a file is.
func typeOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return hostPathDirectory
	case mode.IsRegular():
		return hostPathFile
	case mode&fs.ModeSocket != 0:
		return hostPathSocket
	case mode&fs.ModeCharDevice != 0:
		return hostPathCharDevice
	case mode&fs.ModeDevice != 0:
		return hostPathBlockDevice
	default:
		return "file of another type"
	}
}

// hostPathMode is the mode of directories that are made, the kubelet's.
const hostPathMode = 0o755

func makeHostDirectory(path string, noLinks bool) error {
	dir, err := makeHostParents(path, noLinks)
	if err != nil {
		return fmt.Errorf("making hostPath directory: %w: %w", err, errdefs.ErrFailedPrecondition)
	}
	return dir.Close()
}

// makeHostParents makes a directory with those above it. Without links it goes from one to the next, so that none is followed.
func makeHostParents(path string, noLinks bool) (*os.File, error) {
	if !noLinks {
		if err := os.MkdirAll(path, hostPathMode); err != nil {
			return nil, err
		}
		return openHost(path, false)
	}
	return descend(path, func(dir *os.File, element string) (*os.File, error) {
		next, err := openAt(dir, element)
		if !errors.Is(err, fs.ErrNotExist) {
			return next, err
		}
		if err := makeAt(dir, element, hostPathMode); err != nil {
			return nil, err
		}
		return openAt(dir, element)
	})
}

// makeHostFile makes an empty file. The directory it is in must exist.
func makeHostFile(path string, noLinks bool) error {
	dir, err := openHost(filepath.Dir(path), noLinks)
	if err != nil {
		return fmt.Errorf("making hostPath file: %w: %w", err, errdefs.ErrFailedPrecondition)
	}
	defer dir.Close()
	flags := unix.O_CREAT | unix.O_WRONLY | unix.O_CLOEXEC
	if noLinks {
		flags |= unix.O_NOFOLLOW
	}
	fd, err := unix.Openat(int(dir.Fd()), filepath.Base(path), flags, 0o644)
	if err != nil {
		return fmt.Errorf("making hostPath file: %w: %w", err, errdefs.ErrFailedPrecondition)
	}
	return unix.Close(fd)
}
