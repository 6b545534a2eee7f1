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

// ensureLocal checks what a PersistentVolume names on the host, gives it to a group, and mounts it if it has options. It returns the group of
// what was not given because another pod uses it. Messages are the kubelet's where it has one.
func (h *Host) ensureLocal(ctx context.Context, uid types.UID, volume host.Volume) (host.ReadyVolume, error) {
	v := volume.Local
	made := host.ReadyVolume{Path: v.Path}
	attr, err := mountAttr(v.MountOptions)
	if err == nil {
		err = checkHostPath(v.Path)
	}
	if err != nil {
		return made, err
	}
	file, err := openHost(v.Path, volume.NoLinks)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return made, fmt.Errorf("path %q does not exist: %w", v.Path, errdefs.ErrFailedPrecondition)
	case err != nil:
		return made, fmt.Errorf("looking at local volume: %w: %w", err, errdefs.ErrFailedPrecondition)
	}
	defer file.Close()
	if err := checkLocal(file, v); err != nil || v.Block {
		return made, err
	}
	if made.OtherGroup, err = h.giveLocal(ctx, uid, volume, file); err != nil || len(v.MountOptions) == 0 {
		return made, err
	}
	if made.Path, err = h.mountLocal(uid, volume.Name, file, attr); err != nil {
		return made, fmt.Errorf("mounting %s: %w", v.Path, err)
	}
	made.Mounted = true
	return made, nil
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
// can read it shall go on reading. Then it returns the directory's group, if it is another one.
func (h *Host) giveLocal(ctx context.Context, uid types.UID, volume host.Volume, file *os.File) (*int64, error) {
	record, other, err := h.claimLocal(ctx, uid, volume, file)
	if err == nil && !record.Given {
		err = giveDirectory(ctx, volume.Local, file)
	}
	switch {
	case errors.Is(err, errInUse):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("applyFSGroup failed for vol %s: %w", volume.Local.Path, err)
	case record.Given:
		return other, nil
	}
	record.Given = true
	defer h.lockPod(uid)()
	return nil, h.writeLocal(uid, volume.Name, record)
}

// giveDirectory gives an open directory with all that is in it to the group of a volume.
func giveDirectory(ctx context.Context, v *host.LocalVolume, file *os.File) error {
	dir, err := openDirectoryAt(file, ".")
	if err != nil {
		return err
	}
	defer dir.Close()
	return giveToGroup(ctx, dir, int(*v.FSGroup), v.OnRootMismatch)
}

// errInUse says that a volume is for one pod at a time, and another one has it.
var errInUse = fmt.Errorf("volume uses the ReadWriteOncePod access mode and is already in use by another pod: %w", errdefs.ErrFailedPrecondition)

// claimLocal notes that the pod uses the directory, and says whether it has to be given to its group, or stays another's. That another pod
// uses it is known until the directory of that one is removed, also after a restart.
func (h *Host) claimLocal(ctx context.Context, uid types.UID, volume host.Volume, file *os.File) (localVolume, *int64, error) {
	defer h.lockPod(uid)()
	h.localVolumes.Lock()
	defer h.localVolumes.Unlock()
	record, err := h.readLocal(localVolumePath(uid, volume.Name))
	if err == nil && record.Path == file.Name() {
		return record, nil, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return record, nil, err
	}
	record = localVolume{Path: file.Name(), Given: volume.Local.FSGroup == nil}
	if record.Given && !volume.Local.Sole {
		return record, nil, h.writeLocal(uid, volume.Name, record)
	}
	user, err := h.userOf(ctx, uid, file.Name())
	switch {
	case err != nil:
		return record, nil, err
	case user != "" && volume.Local.Sole:
		return record, nil, errInUse
	}
	var other *int64
	if user != "" {
		st, err := statOf(file)
		if err != nil {
			return record, nil, err
		}
		if group := int64(st.Gid); group != *volume.Local.FSGroup {
			other = &group
		}
		record.Given = true
		h.logger.Warn("a local volume is not given to the group of a pod: another pod uses it", "path", file.Name(), "uid", uid, "group", *volume.Local.FSGroup, "other", user)
	}
	return record, other, h.writeLocal(uid, volume.Name, record)
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
