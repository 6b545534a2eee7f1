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
func ensureHostPath(path, wanted string) error {
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
			return makeHostDirectory(path)
		case hostPathFileOrCreate:
			return makeHostFile(path)
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

func makeHostDirectory(path string) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fmt.Errorf("making hostPath directory: %w: %w", err, errdefs.ErrFailedPrecondition)
	}
	return nil
}

// makeHostFile makes an empty file. The directory it is in must exist.
func makeHostFile(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("making hostPath file: %w: %w", err, errdefs.ErrFailedPrecondition)
	}
	return file.Close()
}
