// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
)

// countedKinds are the kinds of volumes that take space of the pod on the host's disk.
var countedKinds = []host.VolumeKind{host.EmptyDirVolume, host.ConfigMapVolume}

// measureTime is how long the files of a pod are counted, less than the node waits for the answer.
const measureTime = time.Minute

// PodUsage measures what a pod takes of the host's disks.
func (h *Host) PodUsage(ctx context.Context, pod host.Pod, layers bool) (*host.PodUsage, error) {
	if err := checkPod(pod); err != nil {
		return nil, err
	}
	out := &host.PodUsage{Volumes: map[string]int64{}, Containers: map[string]host.ContainerUsage{}}
	device, err := h.device(podDir(pod.UID))
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking at the directory of pod %s: %w", pod.UID, err)
	}
	if err := h.addFiles(ctx, out, pod, device); err != nil {
		return nil, err
	}
	if !layers {
		return out, nil
	}
	stats, err := h.runtime.SelectStats(ctx, map[string]string{cri.LabelPodUID: string(pod.UID)})
	if err != nil {
		return nil, err
	}
	addLayers(out, stats, device)
	return out, nil
}

// addFiles counts files until it is at the end of its time: what is counted by then is as much as there is, or less.
func (h *Host) addFiles(ctx context.Context, out *host.PodUsage, pod host.Pod, device uint64) error {
	counting, stop := context.WithTimeout(ctx, h.measureTime)
	defer stop()
	if info, err := h.root.Lstat(filepath.Join(podDir(pod.UID), hostsFileName)); err == nil {
		out.Other += blocksOf(info)
	}
	err := h.addLogs(counting, out, pod)
	if err != nil {
		err = fmt.Errorf("measuring the logs of pod %s: %w", pod.UID, err)
	}
	for _, kind := range countedKinds {
		if err != nil {
			break
		}
		if err = h.addVolumes(counting, out, filepath.Dir(volumePath(pod.UID, kind, "x")), device); err != nil {
			err = fmt.Errorf("measuring the volumes of pod %s: %w", pod.UID, err)
		}
	}
	if ctx.Err() == nil && counting.Err() != nil {
		return nil
	}
	return err
}

// addVolumes measures the volumes of one kind. Those on another file system are in memory.
func (h *Host) addVolumes(ctx context.Context, out *host.PodUsage, dir string, device uint64) error {
	entries, err := fs.ReadDir(h.root.FS(), dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !entry.IsDir() || checkLabel("volume", entry.Name()) != nil {
			continue
		}
		u, err := diskUsage(ctx, h.root, filepath.Join(dir, entry.Name()))
		if u.device == device {
			out.Volumes[entry.Name()] = u.bytes
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addLogs measures the log directories of containers, and what else is beside them.
func (h *Host) addLogs(ctx context.Context, out *host.PodUsage, pod host.Pod) error {
	dir := podLogDir(pod)
	entries, err := fs.ReadDir(h.logs.FS(), dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			if info, err := entry.Info(); err == nil {
				out.Other += blocksOf(info)
			}
			continue
		}
		u, err := diskUsage(ctx, h.logs, filepath.Join(dir, entry.Name()))
		c := out.Containers[entry.Name()]
		c.Logs = u.bytes
		out.Containers[entry.Name()] = c
		if err != nil {
			return err
		}
	}
	return nil
}

// addLayers takes over the layers of the newest container of each name: those before it wrote to others, as far as they still exist.
func addLayers(out *host.PodUsage, stats []*runtimeapi.ContainerStats, device uint64) {
	newest := map[string]*runtimeapi.ContainerStats{}
	for _, s := range stats {
		name := s.GetAttributes().GetMetadata().GetName()
		if known := newest[name]; known == nil || known.GetAttributes().GetMetadata().GetAttempt() < s.GetAttributes().GetMetadata().GetAttempt() {
			newest[name] = s
		}
	}
	for name, s := range newest {
		layer := s.GetWritableLayer()
		c := out.Containers[name]
		c.Layer = int64(layer.GetUsedBytes().GetValue()) //nolint:gosec // no disk has 2^63 bytes
		var st unix.Stat_t
		if at := layer.GetFsId().GetMountpoint(); at != "" && unix.Stat(at, &st) == nil {
			c.Elsewhere = st.Dev != device
		}
		out.Containers[name] = c
	}
}

// device returns the file system that a path of the root directory is on.
func (h *Host) device(path string) (uint64, error) {
	info, err := h.root.Lstat(path)
	if err != nil {
		return 0, err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Dev, nil
	}
	return 0, errors.New("the system does not tell its file system")
}

// blocksOf returns what a file takes on disk.
func blocksOf(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * blockBytes
	}
	return 0
}
