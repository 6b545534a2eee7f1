// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
)

// Names below the directory of a pod, the kubelet's own.
const (
	volumesDir    = "volumes"
	pluginsDir    = "plugins"
	containersDir = "containers"
)

// terminationLogMode lets the container's user write, whoever that is.
const terminationLogMode = 0o666

// podDir is the directory of a pod, relative to the root directory.
func podDir(uid types.UID) string { return filepath.Join(podsDir, string(uid)) }

// podLogDir is the log directory of a pod, relative to the directory of pod logs.
func podLogDir(pod host.Pod) string {
	return pod.Namespace + "_" + pod.Name + "_" + string(pod.UID)
}

// EnsurePod makes the pod's directories.
func (h *Host) EnsurePod(_ context.Context, pod host.Pod, containers []string) error {
	if err := checkPod(pod); err != nil {
		return err
	}
	for _, container := range containers {
		if err := checkLabel("container", container); err != nil {
			return err
		}
	}
	defer h.lockPod(pod.UID)()
	dir := podDir(pod.UID)
	for _, path := range []string{dir, filepath.Join(dir, volumesDir), filepath.Join(dir, pluginsDir), filepath.Join(dir, containersDir)} {
		if err := ensureDir(h.root, path, privateDirMode); err != nil {
			return err
		}
	}
	logDir := podLogDir(pod)
	if err := ensureDir(h.logs, logDir, logDirMode); err != nil {
		return err
	}
	for _, container := range containers {
		if err := ensureDir(h.logs, filepath.Join(logDir, container), logDirMode); err != nil {
			return err
		}
	}
	return nil
}

// EnsureTerminationLog makes the file for a container's termination message. One that exists is left as it is: the
// container may have written to it.
func (h *Host) EnsureTerminationLog(_ context.Context, uid types.UID, container string, restartCount int32) (string, error) {
	if err := errors.Join(checkUID(uid), checkLabel("container", container)); err != nil {
		return "", err
	}
	if restartCount < 0 {
		return "", fmt.Errorf("restart count %d is negative: %w", restartCount, errdefs.ErrInvalidArgument)
	}
	defer h.lockPod(uid)()
	dir := filepath.Join(podDir(uid), containersDir, container)
	if err := ensureDirs(h.root, dir, privateDirMode); err != nil {
		return "", err
	}
	path := filepath.Join(dir, fmt.Sprintf("termination-log-%d", restartCount))
	file, err := h.root.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, terminationLogMode)
	switch {
	case errors.Is(err, fs.ErrExist):
		return filepath.Join(h.rootDir, path), nil
	case err != nil:
		return "", fmt.Errorf("making the termination log of container %q: %w", container, err)
	}
	err = errors.Join(file.Chmod(terminationLogMode), file.Close())
	if err != nil {
		return "", fmt.Errorf("making the termination log of container %q: %w", container, errors.Join(err, h.root.Remove(path)))
	}
	return filepath.Join(h.rootDir, path), nil
}

// RemovePod removes the pod's control group, its directory and, if asked to, its log directories. Without being asked it removes only what
// is empty of those: of a pod that never had a container nothing else would remind the node later. A pod that runs is not
// removed: it is another node's, to which this one does not see.
func (h *Host) RemovePod(ctx context.Context, uid types.UID, removeLogs bool) error {
	if err := checkUID(uid); err != nil {
		return err
	}
	defer h.lockPod(uid)()
	if err := h.requireEnded(ctx, uid); err != nil {
		return err
	}
	if h.hooks.running(uid) {
		return fmt.Errorf("a hook of pod %s is running: %w", uid, errdefs.ErrFailedPrecondition)
	}
	if err := h.unmountPod(uid); err != nil {
		return err
	}
	remove := h.removeWithoutFiles
	if removeLogs {
		remove = h.logs.RemoveAll
	}
	// Before the directory, which is what reminds of the pod: nobody looks for logs of one that has none.
	if err := h.removePodLogs(uid, remove); err != nil {
		return err
	}
	return h.removePodDir(ctx, uid)
}

// requireEnded fails if the pod has a directory and something of it runs, whichever node it is of.
func (h *Host) requireEnded(ctx context.Context, uid types.UID) error {
	if _, err := h.root.Lstat(podDir(uid)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	labels := map[string]string{cri.LabelPodUID: string(uid)}
	sandboxes, err := h.runtime.SelectSandboxes(ctx, labels)
	if err != nil {
		return fmt.Errorf("looking whether pod %s runs: %w", uid, err)
	}
	for _, s := range sandboxes {
		if s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY {
			return runs(uid, "sandbox "+s.GetId(), s.GetLabels())
		}
	}
	containers, err := h.runtime.SelectContainers(ctx, labels)
	if err != nil {
		return fmt.Errorf("looking whether pod %s runs: %w", uid, err)
	}
	for _, c := range containers {
		if c.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
			return runs(uid, "container "+c.GetId(), c.GetLabels())
		}
	}
	return nil
}

func runs(uid types.UID, what string, labels map[string]string) error {
	return fmt.Errorf("pod %s is not removed: its %s runs, of node %q of cluster %q; give each node a machine, or a --root-dir, of its own: %w",
		uid, what, labels[cri.LabelNode], labels[cri.LabelCluster], errdefs.ErrFailedPrecondition)
}

// removePodDir removes the pod's control group and then its directory, which is what reminds of the group: without it there is
// none.
func (h *Host) removePodDir(ctx context.Context, uid types.UID) error {
	info, err := h.root.Lstat(podDir(uid))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := h.removeCgroup(ctx, uid); err != nil {
		return err
	}
	if err == nil && info.IsDir() {
		err = h.removeAllBut(podDir(uid), idRangeFile) // files of those ids must be gone before another pod may have them
	}
	if err == nil {
		err = h.root.RemoveAll(podDir(uid))
	}
	if err != nil {
		return fmt.Errorf("removing the directory of pod %s: %w", uid, err)
	}
	return nil
}

// removeAllBut removes what is in a directory of the root directory but one file.
func (h *Host) removeAllBut(dir, name string) error {
	entries, err := fs.ReadDir(h.root.FS(), dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() == name {
			continue
		}
		if err := h.root.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// removeWithoutFiles removes a log directory that holds nothing but empty directories.
func (h *Host) removeWithoutFiles(dir string) error {
	entries, err := fs.ReadDir(h.logs.FS(), dir)
	if err != nil {
		return err
	}
	for _, path := range append(childPaths(dir, entries), dir) {
		err := h.logs.Remove(path)
		if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, fs.ErrExist) {
			return nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// childPaths are the paths of the directories among a directory's entries.
func childPaths(dir string, entries []fs.DirEntry) []string {
	var paths []string
	for _, entry := range entries {
		if entry.IsDir() {
			paths = append(paths, filepath.Join(dir, entry.Name()))
		}
	}
	return paths
}

// removePodLogs applies remove to every log directory of the UID. There is more than one only if something else made it.
func (h *Host) removePodLogs(uid types.UID, remove func(dir string) error) error {
	entries, err := fs.ReadDir(h.logs.FS(), ".")
	if err != nil {
		return fmt.Errorf("listing the directory of pod logs: %w", err)
	}
	for _, entry := range entries {
		if !entry.IsDir() || !strings.HasSuffix(entry.Name(), "_"+string(uid)) {
			continue
		}
		if err := remove(entry.Name()); err != nil {
			return fmt.Errorf("removing the logs of pod %s: %w", uid, err)
		}
	}
	return nil
}

// ListPods returns the UIDs that have a directory, in ascending order.
func (h *Host) ListPods(context.Context) ([]types.UID, error) {
	entries, err := fs.ReadDir(h.root.FS(), podsDir)
	if err != nil {
		return nil, fmt.Errorf("listing the directories of pods: %w", err)
	}
	uids := make([]types.UID, 0, len(entries))
	for _, entry := range entries {
		if uid := types.UID(entry.Name()); entry.IsDir() && checkUID(uid) == nil {
			uids = append(uids, uid)
		}
	}
	return uids, nil
}

// lockPod holds up everyone else who would change the pod's directories until the result is called.
func (h *Host) lockPod(uid types.UID) (unlock func()) { return h.pods.lock(uid) }

// ensureDir makes a directory with exactly that mode, or leaves it as it is.
func ensureDir(root *os.Root, path string, mode fs.FileMode) error {
	err := root.Mkdir(path, mode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		err = root.Chmod(path, mode) // past the umask
	}
	if err != nil {
		return fmt.Errorf("making directory %s: %w", filepath.Join(root.Name(), path), err)
	}
	return nil
}

// ensureDirs makes a directory and those above it, each with exactly that mode.
func ensureDirs(root *os.Root, path string, mode fs.FileMode) error {
	if parent := filepath.Dir(path); parent != "." {
		if err := ensureDirs(root, parent, mode); err != nil {
			return err
		}
	}
	return ensureDir(root, path, mode)
}
