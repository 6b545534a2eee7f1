// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"golang.org/x/sys/unix"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-client/pkg/logs"
	"k8s.io/klog/v2"

	"github.com/tombolo-dev/tombolo/host"
)

// logSuffix ends the name of a container's current log file, and stands in the middle of those of rotated ones.
const logSuffix = ".log"

// maxTailBytes bounds what ReadTail returns, so that it fits one message.
const maxTailBytes = 1 << 20

// ReadLog writes the selected part of a log. A nil writer leaves that stream out, also of LimitBytes.
func (h *Host) ReadLog(ctx context.Context, req host.LogRequest, stdout, stderr io.Writer) error {
	rel, ok := below(h.logsDir, req.Path)
	if !ok {
		return fmt.Errorf("log file %q is not below %s: %w", req.Path, h.logsDir, errdefs.ErrPermissionDenied)
	}
	if err := checkRegular(h.logs, rel); err != nil {
		return err
	}
	options := &logs.LogOptions{Since: req.Since, Follow: req.Follow, Timestamp: req.Timestamps}
	if req.TailLines >= 0 {
		options.TailLines = &req.TailLines
	}
	if req.LimitBytes >= 0 {
		options.LimitBytes = &req.LimitBytes
	}
	// The reader would put lines of the log into ours.
	silent := klog.NewContext(ctx, klog.New(nil))
	err := logs.ReadLogs(silent, filepath.Join(h.realLogs, rel), req.ContainerID, options, containerStates{runtime: h.runtime}, stdout, stderr)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("reading log file %s: %w", req.Path, err)
	}
	return nil
}

// containerStates is the only part of a runtime that the log reader uses: to know whether a container still runs.
type containerStates struct {
	internalapi.RuntimeService
	runtime Runtime
}

// ContainerStatus asks for a container. The log reader wants a gRPC status: it goes on while the runtime is unreachable.
func (c containerStates) ContainerStatus(ctx context.Context, id string, _ bool) (*runtimeapi.ContainerStatusResponse, error) {
	status, err := c.runtime.ContainerStatus(ctx, id)
	if err != nil {
		return nil, errgrpc.ToGRPC(err)
	}
	return &runtimeapi.ContainerStatusResponse{Status: status}, nil
}

// ReadTail returns the end of a termination message or of a log file.
func (h *Host) ReadTail(_ context.Context, path string, limit int64) ([]byte, error) {
	if limit < 0 {
		return nil, fmt.Errorf("limit %d is negative: %w", limit, errdefs.ErrInvalidArgument)
	}
	file, err := h.openForTail(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file: %w", path, errdefs.ErrFailedPrecondition)
	}
	limit = min(limit, maxTailBytes)
	start := max(info.Size()-limit, 0)
	data, err := io.ReadAll(io.NewSectionReader(file, start, limit))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return data, nil
}

// openForTail opens a file of a pod's containers directory, or a log file. It does not wait on a pipe.
func (h *Host) openForTail(path string) (*os.File, error) {
	root := h.logs
	rel, ok := below(h.logsDir, path)
	if !ok {
		root = h.root
		rel, ok = below(h.rootDir, path)
		ok = ok && isContainerFile(rel)
	}
	if !ok {
		return nil, fmt.Errorf("%q is neither a termination message nor a log file: %w", path, errdefs.ErrPermissionDenied)
	}
	file, err := root.OpenFile(rel, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, classify(path, err)
	}
	return file, nil
}

// isContainerFile says whether a path below the root directory is pods/UID/containers/….
func isContainerFile(rel string) bool {
	parts := strings.Split(rel, string(filepath.Separator))
	return len(parts) > 3 && parts[0] == podsDir && parts[2] == containersDir
}

// RestartCount returns one more than the highest restart number among the log files of a container, or 0.
func (h *Host) RestartCount(_ context.Context, pod host.Pod, container string) (int32, error) {
	if err := errors.Join(checkPod(pod), checkLabel("container", container)); err != nil {
		return 0, err
	}
	entries, err := fs.ReadDir(h.logs.FS(), filepath.Join(podLogDir(pod), container))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("listing the logs of container %q: %w", container, err)
	}
	var next int32
	for _, entry := range entries {
		if n, ok := restartNumber(entry.Name()); ok && n < math.MaxInt32 {
			next = max(next, n+1)
		}
	}
	return next, nil
}

// restartNumber reads the number of a log file such as 3.log, 3.log.20260101-120000 or 3.log.20260101-120000.gz.
func restartNumber(name string) (int32, bool) {
	number, rest, ok := strings.Cut(name, logSuffix)
	if !ok || (rest != "" && rest[0] != '.') {
		return 0, false
	}
	n, err := strconv.ParseUint(number, 10, 31)
	if err != nil {
		return 0, false
	}
	return int32(n), true
}

// RemoveLogs removes the log files of one restart of a container.
func (h *Host) RemoveLogs(_ context.Context, path string) error {
	rel, ok := below(h.logsDir, path)
	if !ok {
		return fmt.Errorf("log file %q is not below %s: %w", path, h.logsDir, errdefs.ErrPermissionDenied)
	}
	dir, name := filepath.Split(rel)
	dir = filepath.Clean(dir)
	if _, ok := restartNumber(name); !ok || !strings.HasSuffix(name, logSuffix) || dir == "." {
		return fmt.Errorf("%q is not a log file of a container: %w", path, errdefs.ErrInvalidArgument)
	}
	entries, err := fs.ReadDir(h.logs.FS(), dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing the logs beside %s: %w", path, err)
	}
	for _, entry := range entries {
		if entry.Name() != name && !strings.HasPrefix(entry.Name(), name+".") {
			continue
		}
		err := h.logs.Remove(filepath.Join(dir, entry.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing log file: %w", err)
		}
	}
	return nil
}

// checkRegular says whether rel names a regular file that is really below root.
func checkRegular(root *os.Root, rel string) error {
	path := filepath.Join(root.Name(), rel)
	info, err := root.Stat(rel)
	if err != nil {
		return classify(path, err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file: %w", path, errdefs.ErrFailedPrecondition)
	}
	return nil
}

// classify gives an error of os.Root the class that callers decide by.
func classify(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s does not exist: %w", path, errdefs.ErrNotFound)
	}
	return fmt.Errorf("opening %s: %w: %w", path, err, errdefs.ErrPermissionDenied)
}
