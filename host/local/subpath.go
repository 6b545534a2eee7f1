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
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/host"
)

// subPathsDir holds the mounts of parts of volumes below a pod's directory, as in the kubelet:
// <volume>/<container>/<place among its mounts>.
const subPathsDir = "volume-subpaths"

// maxMounts is more mounts than a container can have.
const maxMounts = 1 << 20

// EnsureSubPath finds a part of a volume, or makes it, and mounts it where no name that the pod can change leads to it.
func (h *Host) EnsureSubPath(_ context.Context, uid types.UID, part host.SubPath) (string, error) {
	if err := checkSubPath(uid, part); err != nil {
		return "", err
	}
	defer h.lockPod(uid)()
	base, noLinks := part.HostPath, part.NoLinks
	if part.Kind != "" {
		base, noLinks = filepath.Join(h.realRoot, volumePath(uid, part.Kind, part.Volume)), true
	}
	source, err := openPart(base, noLinks, part.Path)
	if err != nil {
		return "", fmt.Errorf("finding %q in volume %q: %w", part.Path, part.Volume, err)
	}
	defer source.Close()
	target := filepath.Join(podDir(uid), subPathsDir, part.Volume, part.Container, strconv.Itoa(part.Mount))
	if err := h.bind(source, target); err != nil {
		return "", fmt.Errorf("mounting %q of volume %q: %w", part.Path, part.Volume, err)
	}
	return h.real(target), nil
}

func checkSubPath(uid types.UID, part host.SubPath) error {
	if err := errors.Join(checkUID(uid), checkLabel("volume", part.Volume), checkLabel("container", part.Container)); err != nil {
		return err
	}
	if part.Kind != "" {
		if err := checkKind(part.Volume, part.Kind); err != nil {
			return err
		}
	} else if err := checkHostPath(part.HostPath); err != nil {
		return err
	}
	return errors.Join(checkMount(part.Container, part.Mount), checkPart(part.Volume, part.Path))
}

// checkMount checks the place of a mount among those of a container.
func checkMount(container string, place int) error {
	if place < 0 || place > maxMounts {
		return fmt.Errorf("mount %d of container %q is not one: %w", place, container, errdefs.ErrInvalidArgument)
	}
	return nil
}

// checkKind checks that there are volumes of a kind below the directory of a pod.
func checkKind(volume string, kind host.VolumeKind) error {
	switch kind {
	case host.EmptyDirVolume, host.ConfigMapVolume, host.SecretVolume, host.DownwardAPIVolume, host.ProjectedVolume:
		return nil
	default:
		return fmt.Errorf("volume %q is of kind %q, which is not known: %w", volume, kind, errdefs.ErrInvalidArgument)
	}
}

// checkPart checks what names a part of a volume.
func checkPart(volume, path string) error {
	if path == "" || filepath.IsAbs(path) || strings.ContainsRune(path, 0) || slices.Contains(strings.Split(path, "/"), "..") {
		return fmt.Errorf("path %q of a part of volume %q must be relative and not contain '..': %w", path, volume, errdefs.ErrInvalidArgument)
	}
	return nil
}

// openPart opens a part of a directory without the right to read or write it. Links in the part are followed, as whoever
// names it expects, but what they lead to must be in the directory: names are resolved first, and the result is then opened
// element by element without following anything, so that a name that changes meanwhile leads nowhere. What is missing is made a
// directory.
func openPart(base string, noLinks bool, part string) (*os.File, error) {
	dir, err := openHost(base, noLinks)
	if err != nil {
		return nil, err
	}
	defer func() { dir.Close() }()
	path, missing, err := resolve(dir.Name(), part)
	if err != nil {
		return nil, err
	}
	mode, err := modeOf(dir)
	if err != nil {
		return nil, err
	}
	for i, element := range append(slices.Clone(path), missing...) {
		if i >= len(path) {
			if err := makeAt(dir, element, mode); err != nil {
				return nil, notMade(err)
			}
		}
		next, err := openAt(dir, element)
		if err != nil && i >= len(path) {
			err = notMade(err)
		}
		if err != nil {
			return nil, err
		}
		dir.Close()
		dir = next
	}
	return duplicate(dir)
}

// notMade says of what is missing that it could not be made, and of the reason no more than its text.
func notMade(err error) error {
	return fmt.Errorf("%w: what is missing cannot be made: %v", errdefs.ErrAborted, err) //nolint:errorlint // it has one class
}

// resolve splits a part of a directory into the elements of what exists, without links, and those that are missing.
func resolve(base, part string) (existing, missing []string, err error) {
	elements := elementsOf(part)
	for n := len(elements); n >= 0; n-- {
		found, err := filepath.EvalSymlinks(filepath.Join(base, filepath.Join(elements[:n]...)))
		if errors.Is(err, fs.ErrNotExist) && n > 0 {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		rel, err := filepath.Rel(base, found)
		if err != nil || !filepath.IsLocal(rel) {
			if n < len(elements) {
				return nil, nil, notMade(errors.New("it is outside"))
			}
			return nil, nil, fmt.Errorf("it is outside: %w", errdefs.ErrPermissionDenied)
		}
		if rel != "." {
			existing = strings.Split(rel, "/")
		}
		return existing, elements[n:], nil
	}
	return nil, nil, fs.ErrNotExist
}

// openHost opens an absolute path of the host without the right to read or write it. Links are followed beforehand, unless there must
// be none, and what is then found at each element is a directory or the result: a link that somebody puts there meanwhile leads nowhere.
// The name of the result is its path without links.
func openHost(path string, noLinks bool) (*os.File, error) {
	path = filepath.Clean(path)
	if !noLinks {
		var err error
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return nil, err
		}
	}
	file, err := descend(path, openAt)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("keeping %s open: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// descend goes from the root of the file system along a path, with step from each directory to what is next.
func descend(path string, step func(dir *os.File, element string) (*os.File, error)) (*os.File, error) {
	file, err := os.OpenFile("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	for _, element := range elementsOf(path) {
		next, err := step(file, element)
		file.Close()
		if err != nil {
			return nil, err
		}
		file = next
	}
	return file, nil
}

// elementsOf splits a path.
func elementsOf(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(e string) bool { return e == "" || e == "." })
}

// openAt opens a name in a directory without the right to read or write it, and refuses a symbolic link.
func openAt(dir *os.File, name string) (*os.File, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", filepath.Base(name), err)
	}
	file := os.NewFile(uintptr(fd), name)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, errors.Join(fmt.Errorf("looking at %s: %w", filepath.Base(name), err), file.Close())
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return nil, errors.Join(fmt.Errorf("%s became a link: %w", filepath.Base(name), errdefs.ErrPermissionDenied), file.Close())
	}
	return file, nil
}

// makeAt makes a directory with that mode in another one. One that exists is left as it is.
func makeAt(dir *os.File, name string, mode uint32) error {
	err := unix.Mkdirat(int(dir.Fd()), name, mode&0o777)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("making directory %s: %w", name, err)
	}
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening the new directory %s: %w", name, err)
	}
	made := os.NewFile(uintptr(fd), name)
	if err := unix.Fchmod(fd, mode); err != nil { // past the umask
		return errors.Join(fmt.Errorf("setting the mode of directory %s: %w", name, err), made.Close())
	}
	return made.Close()
}

// modeOf returns the permission bits of an open file, the special ones included.
func modeOf(file *os.File) (uint32, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return 0, fmt.Errorf("looking at the volume: %w", err)
	}
	return st.Mode &^ unix.S_IFMT, nil
}

// duplicate returns a second descriptor of an open file.
func duplicate(file *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("keeping %s open: %w", filepath.Base(file.Name()), err)
	}
	return os.NewFile(uintptr(fd), file.Name()), nil
}

// bind mounts an open file or directory at a path in the root directory. What was mounted there before stays only if it is
// the same.
func (h *Host) bind(source *os.File, target string) error {
	if err := ensureDirs(h.root, filepath.Dir(target), privateDirMode); err != nil {
		return err
	}
	mounted, err := h.isMounted(target)
	if err != nil {
		return err
	}
	if mounted {
		if h.isSame(source, target) {
			return nil
		}
		if err := h.unmount(target); err != nil {
			return err
		}
	}
	point, err := h.mountPoint(source, target)
	if err != nil {
		return err
	}
	defer point.Close()
	return unix.Mount(fdPath(source), fdPath(point), "", unix.MS_BIND, "")
}

// isSame says whether a path in the root directory is the same file as an open one. A mount that cannot be looked at any more
// is not.
func (h *Host) isSame(source *os.File, target string) bool {
	there, err := h.root.Lstat(target)
	if err != nil {
		return false
	}
	here, err := source.Stat()
	return err == nil && os.SameFile(there, here)
}

// mountPoint makes what source can be mounted on, a directory or a file, and opens it.
func (h *Host) mountPoint(source *os.File, target string) (*os.File, error) {
	info, err := source.Stat()
	if err != nil {
		return nil, fmt.Errorf("looking at the source: %w", err)
	}
	if there, err := h.root.Lstat(target); err == nil && there.IsDir() != info.IsDir() {
		if err := h.root.Remove(target); err != nil {
			return nil, fmt.Errorf("removing the mount point of another part: %w", err)
		}
	}
	if info.IsDir() {
		if err := ensureDir(h.root, target, privateDirMode); err != nil {
			return nil, err
		}
		return h.root.Open(target)
	}
	return h.root.OpenFile(target, os.O_RDONLY|os.O_CREATE, 0o640)
}
