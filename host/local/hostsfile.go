// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/containerd/errdefs"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/host"
)

const (
	// hostsFileName is the kubelet's name of the file in the directory of a pod.
	hostsFileName = "etc-hosts"
	// hostsFileMode lets containers of every user read, whatever the umask is.
	hostsFileMode = 0o644
)

// EnsureHostsFile gives the pod's hosts file its content.
func (h *Host) EnsureHostsFile(_ context.Context, uid types.UID, content []byte) (string, error) {
	if err := checkUID(uid); err != nil {
		return "", err
	}
	if len(content) > host.MaxHostsFile {
		return "", fmt.Errorf("a hosts file of %d bytes is larger than %d: %w", len(content), host.MaxHostsFile, errdefs.ErrInvalidArgument)
	}
	defer h.lockPod(uid)()
	if err := ensureDirs(h.root, podDir(uid), privateDirMode); err != nil {
		return "", err
	}
	path := filepath.Join(podDir(uid), hostsFileName)
	file, err := h.root.OpenFile(path, os.O_RDWR|os.O_CREATE, hostsFileMode)
	if err != nil {
		return "", fmt.Errorf("making the hosts file of pod %s: %w", uid, err)
	}
	if err := errors.Join(rewrite(file, content), file.Close()); err != nil {
		return "", fmt.Errorf("writing the hosts file of pod %s: %w", uid, err)
	}
	return filepath.Join(h.rootDir, path), nil
}

// rewrite changes the file to content without making it empty in between, and leaves it alone if it has that content.
func rewrite(file *os.File, content []byte) error {
	if err := file.Chmod(hostsFileMode); err != nil {
		return err
	}
	is, err := io.ReadAll(io.LimitReader(file, int64(len(content))+1))
	if err != nil {
		return err
	}
	if bytes.Equal(is, content) {
		return nil
	}
	if _, err := file.WriteAt(content, 0); err != nil {
		return err
	}
	return file.Truncate(int64(len(content)))
}
