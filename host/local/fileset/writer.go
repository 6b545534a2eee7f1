// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package fileset

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"
)

// Names in the directory. All that begin with ".." are the writer's own.
const (
	ownPrefix = ".."
	dataLink  = "..data"
	nextLink  = "..data_tmp"
	// versionFormat is the kubelet's name for a version, followed by a number.
	versionFormat = "..2006_01_02_15_04_05."
)

const (
	dirMode = 0o755
	// groupRead is what a group gets that owns the files, the kubelet's for volumes that are mounted read-only.
	groupRead = 0o440
)

// Keep leaves the owner or group of a file to the process.
const Keep = -1

// File is one file to write.
type File struct {
	// Path is relative, slash-separated.
	Path string
	Data []byte
	// Mode has permission bits only.
	Mode fs.FileMode
	// UID owns the file, or Keep.
	UID int
}

// linger is how long a version stays after it was replaced, for readers that have looked up the name of its directory and not
// yet that of the file. The kubelet does not wait.
const linger = 10 * time.Millisecond

// Writer writes sets of files.
type Writer struct {
	clock clock.Clock
	// step is called between any two changes of the directory; tests fail it to stop there.
	step func(name string) error
}

// New returns a Writer that names versions by the clock.
func New(clk clock.Clock) *Writer {
	return &Writer{clock: clk, step: func(string) error { return nil }}
}

// Write makes the directory have exactly those files. With a group other than Keep it owns and may read everything. Entries
// that were not made by a Writer are left alone. A path that Check refuses is an error of class InvalidArgument, and nothing
// is changed then. After any other error, or none at all because the process died, the same call again is right.
func (w *Writer) Write(dir *os.Root, files []File, gid int) error {
	wanted, err := index(files)
	if err != nil {
		return err
	}
	s := &set{Writer: w, dir: dir, files: wanted, gid: gid}
	current, err := s.sweep()
	if err != nil {
		return fmt.Errorf("removing what an earlier write left: %w", err)
	}
	same, err := s.matches(current)
	if err != nil {
		return fmt.Errorf("comparing with what is there: %w", err)
	}
	if !same {
		if err := s.replace(); err != nil {
			return err
		}
	}
	if err := s.link(); err != nil {
		return fmt.Errorf("linking files: %w", err)
	}
	if err := s.unlink(); err != nil {
		return fmt.Errorf("removing links to files that are gone: %w", err)
	}
	if same {
		return nil
	}
	if current != "" {
		w.clock.Sleep(linger)
	}
	if _, err := s.sweep(); err != nil {
		return fmt.Errorf("removing the version before: %w", err)
	}
	return nil
}

// set is one call of Write.
type set struct {
	*Writer
	dir   *os.Root
	files map[string]File // by clean path
	gid   int
}

// sweep removes everything of the writer's own but the current version, and returns the name of that, "" if there is none.
func (s *set) sweep() (current string, err error) {
	current, err = s.dir.Readlink(dataLink)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	entries, err := fs.ReadDir(s.dir.FS(), ".")
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ownPrefix) || e.Name() == dataLink || e.Name() == current {
			continue
		}
		if err := s.step("sweep " + e.Name()); err != nil {
			return "", err
		}
		if err := s.dir.RemoveAll(e.Name()); err != nil {
			return "", err
		}
	}
	return current, nil
}

// matches says whether a version has exactly the wanted files.
func (s *set) matches(version string) (bool, error) {
	if version == "" {
		return false, nil
	}
	found := 0
	err := fs.WalkDir(s.dir.FS(), version, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		found++
		want, ok := s.files[strings.TrimPrefix(name, version+"/")]
		if !ok {
			return errDiffers
		}
		return s.compare(name, want)
	})
	switch {
	case errors.Is(err, errDiffers), errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	return found == len(s.files), nil
}

// errDiffers ends a comparison.
var errDiffers = errors.New("the files differ")

// compare returns errDiffers unless the file is as wanted.
func (s *set) compare(name string, want File) error {
	info, err := s.dir.Lstat(name)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() != int64(len(want.Data)) || info.Mode().Perm() != s.modeOf(want) || !s.owned(info, want) {
		return errDiffers
	}
	data, err := s.dir.ReadFile(name)
	if err != nil {
		return err
	}
	if !bytes.Equal(data, want.Data) {
		return errDiffers
	}
	return nil
}

// owned says whether a file has the wanted owner and group.
func (s *set) owned(info fs.FileInfo, want File) bool {
	uid, gid := owner(info)
	return (want.UID == Keep || want.UID == uid) && (s.gid == Keep || s.gid == gid)
}

func (s *set) modeOf(f File) fs.FileMode {
	if s.gid == Keep {
		return f.Mode.Perm()
	}
	return f.Mode.Perm() | groupRead
}

// replace writes a new version and makes it the current one.
func (s *set) replace() error {
	version, err := s.newVersion()
	if err != nil {
		return fmt.Errorf("making a directory for a new version: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		if err := s.step("write " + name); err != nil {
			return err
		}
		if err := s.writeFile(version, name); err != nil {
			return fmt.Errorf("writing file %q: %w", name, err)
		}
	}
	if err := s.step("prepare the switch"); err != nil {
		return err
	}
	if err := s.symlink(version, nextLink); err != nil {
		return fmt.Errorf("preparing the switch to a new version: %w", err)
	}
	if err := s.step("switch"); err != nil {
		return err
	}
	if err := s.dir.Rename(nextLink, dataLink); err != nil {
		return fmt.Errorf("switching to a new version: %w", err)
	}
	return nil
}

// newVersion makes a directory with a name that no version had.
func (s *set) newVersion() (string, error) {
	for {
		name := s.clock.Now().UTC().Format(versionFormat) + fmt.Sprint(rand.Uint32()) //nolint:gosec // a name, not a secret
		if err := s.step("make a version"); err != nil {
			return "", err
		}
		switch err := s.mkdir(name); {
		case errors.Is(err, fs.ErrExist):
		case err != nil:
			return "", err
		default:
			return name, nil
		}
	}
}

// mkdir makes one directory for files.
func (s *set) mkdir(name string) error {
	if err := s.dir.Mkdir(name, dirMode); err != nil {
		return err
	}
	mode := fs.FileMode(dirMode)
	if s.gid != Keep {
		if err := s.dir.Chown(name, Keep, s.gid); err != nil {
			return err
		}
		mode |= fs.ModeSetgid
	}
	return s.dir.Chmod(name, mode) // past the umask
}

// writeFile writes a file that does not exist yet, with the directories above it.
func (s *set) writeFile(version, name string) error {
	f := s.files[name]
	full := version
	elements := strings.Split(name, "/")
	for _, element := range elements[:len(elements)-1] {
		full = path.Join(full, element)
		if err := s.mkdir(full); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	file, err := s.dir.OpenFile(path.Join(version, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(f.Data)
	if err == nil && (f.UID != Keep || s.gid != Keep) {
		err = file.Chown(f.UID, s.gid)
	}
	if err == nil {
		err = file.Chmod(s.modeOf(f))
	}
	return errors.Join(err, file.Close())
}

// symlink makes a link.
func (s *set) symlink(target, name string) error {
	if err := s.dir.Symlink(target, name); err != nil {
		return err
	}
	if s.gid == Keep {
		return nil
	}
	return s.dir.Lchown(name, Keep, s.gid)
}

// link makes the links that are missing. Something else under the name of a file is an error.
func (s *set) link() error {
	for name := range s.visible() {
		if err := s.step("link " + name); err != nil {
			return err
		}
		target, err := s.dir.Readlink(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = s.symlink(linkTarget(name), name)
		case errors.Is(err, unix.EINVAL):
			err = fmt.Errorf("%q is in the way of a file: %w", name, fs.ErrExist)
		case err == nil && target != linkTarget(name):
			if err = s.dir.Remove(name); err == nil {
				err = s.symlink(linkTarget(name), name)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unlink removes the links to files that are not wanted any more.
func (s *set) unlink() error {
	entries, err := fs.ReadDir(s.dir.FS(), ".")
	if err != nil {
		return err
	}
	wanted := s.visible()
	for _, e := range entries {
		name := e.Name()
		if wanted[name] || e.Type() != fs.ModeSymlink || strings.HasPrefix(name, ownPrefix) {
			continue
		}
		target, err := s.dir.Readlink(name)
		if err != nil {
			return err
		}
		if target != linkTarget(name) {
			continue
		}
		if err := s.step("unlink " + name); err != nil {
			return err
		}
		if err := s.dir.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// visible are the first elements of all paths.
func (s *set) visible() map[string]bool {
	out := map[string]bool{}
	for name := range s.files {
		first, _, _ := strings.Cut(name, "/")
		out[first] = true
	}
	return out
}

func linkTarget(name string) string { return dataLink + "/" + name }
