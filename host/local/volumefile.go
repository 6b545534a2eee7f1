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
	"path/filepath"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/host"
)

// ReadVolumeFile reads a file that a pod may have put into a volume, together with links, devices, pipes and files without end.
func (h *Host) ReadVolumeFile(_ context.Context, uid types.UID, file host.VolumeFile) ([]byte, error) {
	if err := errors.Join(checkUID(uid), checkLabel("volume", file.Volume), checkKind(file.Volume, file.Kind), checkPart(file.Volume, file.Path)); err != nil {
		return nil, err
	}
	found, err := openPart(filepath.Join(h.realRoot, volumePath(uid, file.Kind, file.Volume)), file.Path, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("file %q of volume %q: %w", file.Path, file.Volume, errdefs.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("finding %q in volume %q: %w", file.Path, file.Volume, err)
	}
	defer found.Close()
	data, err := readRegular(found)
	if err != nil {
		return nil, fmt.Errorf("reading %q of volume %q: %w", file.Path, file.Volume, err)
	}
	return data, nil
}

// readRegular reads a file that is open for nothing, without the effects that opening a device or a pipe can have.
func readRegular(found *os.File) ([]byte, error) {
	info, err := found.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("it is not a regular file: %w", errdefs.ErrFailedPrecondition)
	}
	file, err := os.OpenFile(fdPath(found), os.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, host.MaxVolumeFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > host.MaxVolumeFileBytes {
		return nil, fmt.Errorf("it has more than %d bytes: %w", host.MaxVolumeFileBytes, errdefs.ErrFailedPrecondition)
	}
	return data, nil
}
