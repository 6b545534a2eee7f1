// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/containerd/errdefs"

	"github.com/tombolo-dev/tombolo/lifecycle/podsync"
)

// maxProfileBytes bounds a seccomp profile. Those of runtimes have some ten kilobytes.
const maxProfileBytes = 1 << 20

// profileDir has seccomp profiles as files of a directory. They are read anew each time; nothing outside the directory is.
type profileDir string

var _ podsync.Profiles = profileDir("")

// Seccomp returns a profile.
func (d profileDir) Seccomp(name string) (data []byte, err error) {
	file, err := os.OpenInRoot(string(d), name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("seccomp profile %q: %w", name, errdefs.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("opening seccomp profile %q: %w", name, err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	data, err = io.ReadAll(io.LimitReader(file, maxProfileBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading seccomp profile %q: %w", name, err)
	case len(data) > maxProfileBytes:
		return nil, fmt.Errorf("seccomp profile %q has more than %d bytes: %w", name, maxProfileBytes, errdefs.ErrFailedPrecondition)
	}
	return data, nil
}
