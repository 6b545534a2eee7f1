// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/containerd/errdefs"

	"github.com/tombolo-dev/tombolo/host"
)

// ensureLocal checks what a PersistentVolume names on the host, and gives it to a group. Messages are the kubelet's where it has
// one.
func ensureLocal(ctx context.Context, v *host.LocalVolume) error {
	if err := checkHostPath(v.Path); err != nil {
		return err
	}
	info, err := os.Stat(v.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("path %q does not exist: %w", v.Path, errdefs.ErrFailedPrecondition)
	case err != nil:
		return fmt.Errorf("looking at local volume: %w: %w", err, errdefs.ErrFailedPrecondition)
	}
	kind := typeOf(info.Mode())
	switch {
	case v.Block && kind == hostPathBlockDevice, !v.Block && kind == hostPathDirectory:
	case v.Block:
		return fmt.Errorf("path %q is not a block device, it's a %s: %w", v.Path, kind, errdefs.ErrFailedPrecondition)
	case kind == hostPathBlockDevice:
		return fmt.Errorf("path %q is a block device, which is not formatted and mounted here; mount its file system on the host and name the directory: %w",
			v.Path, errdefs.ErrFailedPrecondition)
	default:
		return fmt.Errorf("path %q is not a directory, it's a %s: only directories are supported: %w", v.Path, kind, errdefs.ErrFailedPrecondition)
	}
	if v.Block || v.FSGroup == nil {
		return nil
	}
	if err := giveToGroup(ctx, v.Path, int(*v.FSGroup), v.OnRootMismatch); err != nil {
		return fmt.Errorf("applyFSGroup failed for vol %s: %w", v.Path, err)
	}
	return nil
}
