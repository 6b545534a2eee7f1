// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/containerd/errdefs"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/host"
)

// localVolumePlugin is the kubelet's name of local volumes, as in the name of the directory for what is known of them.
const localVolumePlugin = "local-volume"

// localVolumeMode is for root alone.
const localVolumeMode = 0o600

// localVolume is what is known of a directory of the host that a pod uses as a volume.
type localVolume struct {
	// Path leads through no link.
	Path string `json:"path"`
	// Given says that the directory was given to the pod's group, or was not to be.
	Given bool `json:"given"`
}

// ensureLocal checks what a PersistentVolume names on the host, and gives it to a group. Messages are the kubelet's where it has
// one.
func (h *Host) ensureLocal(ctx context.Context, uid types.UID, volume host.Volume) error {
	v := volume.Local
	if err := checkHostPath(v.Path); err != nil {
		return err
	}
	file, err := openHost(v.Path, volume.NoLinks)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("path %q does not exist: %w", v.Path, errdefs.ErrFailedPrecondition)
	case err != nil:
		return fmt.Errorf("looking at local volume: %w: %w", err, errdefs.ErrFailedPrecondition)
	}
	defer file.Close()
	if err := checkLocal(file, v); err != nil || v.Block {
		return err
	}
	if err := h.giveLocal(ctx, uid, volume, file); err != nil {
		return fmt.Errorf("applyFSGroup failed for vol %s: %w", v.Path, err)
	}
	return nil
}

// checkLocal says whether what was found is what the volume is said to be.
func checkLocal(file *os.File, v *host.LocalVolume) error {
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("looking at local volume: %w: %w", err, errdefs.ErrFailedPrecondition)
	}
	kind := typeOf(info.Mode())
	switch {
	case v.Block && kind == hostPathBlockDevice, !v.Block && kind == hostPathDirectory:
		return nil
	case v.Block:
		return fmt.Errorf("path %q is not a block device, it's a %s: %w", v.Path, kind, errdefs.ErrFailedPrecondition)
	case kind == hostPathBlockDevice:
		return fmt.Errorf("path %q is a block device, which is not formatted and mounted here; mount its file system on the host and name the directory: %w",
			v.Path, errdefs.ErrFailedPrecondition)
	default:
		return fmt.Errorf("path %q is not a directory, it's a %s: only directories are supported: %w", v.Path, kind, errdefs.ErrFailedPrecondition)
	}
}

// giveLocal gives the directory to the pod's group, unless that was done for this pod before, or another pod uses it: what that one
// can read it shall go on reading.
func (h *Host) giveLocal(ctx context.Context, uid types.UID, volume host.Volume, file *os.File) error {
	record, err := h.claimLocal(ctx, uid, volume, file)
	if err != nil || record.Given {
		return err
	}
	dir, err := openDirectoryAt(file, ".")
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := giveToGroup(ctx, dir, int(*volume.Local.FSGroup), volume.Local.OnRootMismatch); err != nil {
		return err
	}
	record.Given = true
	defer h.lockPod(uid)()
	return h.writeLocal(uid, volume.Name, record)
}

// claimLocal notes that the pod uses the directory, and says whether it has to be given to its group.
func (h *Host) claimLocal(ctx context.Context, uid types.UID, volume host.Volume, file *os.File) (localVolume, error) {
	defer h.lockPod(uid)()
	h.localVolumes.Lock()
	defer h.localVolumes.Unlock()
	record, err := h.readLocal(localVolumePath(uid, volume.Name))
	if err == nil && record.Path == file.Name() {
		return record, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return record, err
	}
	record = localVolume{Path: file.Name(), Given: volume.Local.FSGroup == nil}
	if !record.Given {
		user, err := h.userOf(ctx, uid, file.Name())
		if err != nil {
			return record, err
		}
		if record.Given = user != ""; record.Given {
			h.logger.Warn("a local volume is not given to the group of a pod: another pod uses it", "path", file.Name(), "uid", uid, "group", *volume.Local.FSGroup, "other", user)
		}
	}
	return record, h.writeLocal(uid, volume.Name, record)
}

// userOf returns another pod that uses a directory, "" if there is none.
func (h *Host) userOf(ctx context.Context, uid types.UID, path string) (types.UID, error) {
	pods, err := h.ListPods(ctx)
	if err != nil {
		return "", err
	}
	for _, other := range pods {
		if other == uid {
			continue
		}
		names, err := fs.ReadDir(h.root.FS(), filepath.Dir(localVolumePath(other, "x")))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		for _, name := range names {
			record, err := h.readLocal(localVolumePath(other, name.Name()))
			if err == nil && record.Path == path {
				return other, nil
			}
		}
	}
	return "", nil
}

// localVolumePath is the file for what is known of a local volume of a pod.
func localVolumePath(uid types.UID, name string) string {
	return filepath.Join(podDir(uid), pluginsDir, pluginPrefix+localVolumePlugin, name)
}

// readLocal reads what is known of a volume. A record that was cut off when the machine went down says nothing.
func (h *Host) readLocal(path string) (localVolume, error) {
	var record localVolume
	content, err := h.root.ReadFile(path)
	if err != nil {
		return record, err
	}
	if !json.Valid(content) {
		return record, nil
	}
	return record, json.Unmarshal(content, &record)
}

func (h *Host) writeLocal(uid types.UID, name string, record localVolume) error {
	content, err := json.Marshal(record)
	if err != nil {
		return err
	}
	path := localVolumePath(uid, name)
	if err := ensureDirs(h.root, filepath.Dir(path), privateDirMode); err != nil {
		return err
	}
	unfinished := filepath.Join(filepath.Dir(path), recordUnfinished+name)
	if err := h.root.WriteFile(unfinished, content, localVolumeMode); err != nil {
		return err
	}
	return h.root.Rename(unfinished, path)
}
