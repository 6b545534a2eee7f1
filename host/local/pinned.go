// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/host"
)

// pinsDir holds the mounts of paths of the host below a pod's directory: <container>/<place among its mounts>.
const pinsDir = "volume-hostpaths"

// PinPath mounts a path of the host, with what is mounted below it, where no name that the pod can change leads to it, and returns that
// place. What the host itself made for a pod is at such a place already; anything else there is PermissionDenied. A second call for the same
// mount looks anew.
func (h *Host) PinPath(_ context.Context, uid types.UID, p host.PinnedPath) (string, error) {
	if err := errors.Join(checkUID(uid), checkContainerName(p.Container), checkHostPath(p.Path), checkMount(p.Container, p.Mount)); err != nil {
		return "", err
	}
	if rel, ok := below(filepath.Join(h.rootDir, podsDir), p.Path); ok {
		return p.Path, checkMade(rel)
	}
	defer h.lockPod(uid)()
	source, err := openPinned(p)
	if err != nil {
		return "", fmt.Errorf("opening it: %w", err)
	}
	defer source.Close()
	target := filepath.Join(podDir(uid), pinsDir, p.Container, strconv.Itoa(p.Mount))
	if err := h.attach(source, target); err != nil {
		return "", err
	}
	return h.real(target), nil
}

// checkMade checks that a path below the directory of the pods' directories is what the host makes there, and no part of it. Names in a
// volume are up to the pod, and what volumes are in would let it change those of others.
func checkMade(rel string) error {
	elements := strings.Split(rel, "/")
	switch {
	case len(elements) == 2 && elements[1] == hostsFileName,
		len(elements) == 4 && (elements[1] == volumesDir || elements[1] == containersDir),
		len(elements) == 5 && elements[1] == subPathsDir:
		return nil
	}
	return fmt.Errorf("it is in the directory of a pod, where the host has made no such thing: %w", errdefs.ErrPermissionDenied)
}

func openPinned(p host.PinnedPath) (*os.File, error) {
	if p.Make {
		return makeHostParents(p.Path, true)
	}
	return openHost(p.Path, true)
}

// attach mounts an open file or directory, with what is mounted below it, at a path in the root directory. What is mounted below it later
// is seen there, too, if it is a shared mount, and nothing that is unmounted there is unmounted where it comes from.
func (h *Host) attach(source *os.File, target string) error {
	if err := ensureDirs(h.root, filepath.Dir(target), privateDirMode); err != nil {
		return err
	}
	mounted, err := h.isMounted(target)
	if err == nil && mounted {
		err = h.unmount(target)
	}
	if err != nil {
		return err
	}
	point, err := h.mountPoint(source, target)
	if err != nil {
		return err
	}
	defer point.Close()
	return mountError(graft(source, point, unix.AT_RECURSIVE, &unix.MountAttr{Propagation: unix.MS_SLAVE}))
}

func mountError(err error) error {
	if errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("a policy for host paths needs Linux 5.12 or later: %w: %w", err, errdefs.ErrFailedPrecondition)
	}
	return err
}
