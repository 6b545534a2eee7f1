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
	"strings"

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
	found, err := h.openInVolume(volumePath(uid, file.Kind, file.Volume), file.Path)
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

// maxLinks is how many links the kernel follows in a path.
const maxLinks = 40

// openInVolume opens a file of a volume without the right to read or write it, which has no effect whatever it is. Links are followed
// as long as they stay in the volume; nothing tells whether there is something where others lead.
func (h *Host) openInVolume(volume, path string) (*os.File, error) {
	root, err := h.root.OpenRoot(volume)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	path = strings.TrimRight(path, "/")
	for range maxLinks {
		file, err := root.OpenFile(path, unix.O_PATH, 0)
		if err != nil {
			return nil, outside(err)
		}
		target, err := linkTarget(file)
		if err != nil || target == "" {
			return file, err
		}
		if err := file.Close(); err != nil {
			return nil, err
		}
		if strings.HasPrefix(target, "/") {
			return nil, outside(nil)
		}
		path = path[:strings.LastIndex(path, "/")+1] + target
	}
	return nil, unix.ELOOP
}

// outside gives every error but those of the kernel the class of what leads out of a volume.
func outside(err error) error {
	if errno := unix.Errno(0); errors.As(err, &errno) {
		return err
	}
	return fmt.Errorf("it is outside: %w", errdefs.ErrPermissionDenied)
}

// linkTarget returns where an open link leads, "" for what is no link.
func linkTarget(file *os.File) (string, error) {
	info, err := file.Stat()
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return "", err
	}
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(file.Fd()), "", target)
	return string(target[:max(0, n)]), err
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
