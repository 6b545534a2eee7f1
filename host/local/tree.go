// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// treeBuffer is how many bytes of a directory are read at once.
const treeBuffer = 32 << 10

// tree goes through a directory with everything in it. It follows no link, takes the way back up only to where it came down from,
// and holds two directories open however deep they are: whoever can write there can neither lead it elsewhere nor hide anything from it by
// depth. What is moved away or vanishes meanwhile is left out.
type tree struct {
	// enter says whether to go into a directory of which st is known.
	enter func(st *unix.Stat_t) bool
	// file is told of each entry of dir that is not a directory.
	file func(dir *os.File, name string, st *unix.Stat_t) error
	// leave is told of each directory after everything in it.
	leave func(dir *os.File) error

	top    *os.File
	levels []level
	buffer []byte
}

// level is a directory on the way down.
type level struct {
	device, inode uint64
	name          string
	// below are directories in it that were seen and not yet entered.
	below []string
	// read is how far its entries are read; all says that there are no more.
	read int64
	all  bool
}

// walk goes through a directory, which stays open.
func (t *tree) walk(ctx context.Context, top *os.File) error {
	dir, err := duplicate(top)
	if err != nil {
		return err
	}
	t.top, t.levels, t.buffer = top, nil, make([]byte, treeBuffer)
	_, err = t.down(dir, "")
	for err == nil && len(t.levels) > 0 {
		if err = ctx.Err(); err == nil {
			dir, err = t.step(dir)
		}
	}
	return errors.Join(err, dir.Close())
}

// step does one thing in the open directory and returns the one to go on in.
func (t *tree) step(dir *os.File) (*os.File, error) {
	l := &t.levels[len(t.levels)-1]
	if n := len(l.below); n > 0 {
		name := l.below[n-1]
		l.below = l.below[:n-1]
		return t.into(dir, name)
	}
	if !l.all {
		return dir, t.readMore(dir, l)
	}
	if err := t.leave(dir); err != nil {
		return dir, err
	}
	return t.up(dir)
}

// readMore reads some entries of a directory.
func (t *tree) readMore(dir *os.File, l *level) error {
	fd := int(dir.Fd())
	if _, err := unix.Seek(fd, l.read, unix.SEEK_SET); err != nil {
		return fmt.Errorf("reading a directory: %w", err)
	}
	n, err := unix.ReadDirent(fd, t.buffer)
	if errors.Is(err, unix.ENOENT) { // it was removed
		n, err = 0, nil
	}
	if err != nil {
		return fmt.Errorf("reading a directory: %w", err)
	}
	if n <= 0 {
		l.all = true
		return nil
	}
	if l.read, err = unix.Seek(fd, 0, unix.SEEK_CUR); err != nil {
		return fmt.Errorf("reading a directory: %w", err)
	}
	_, _, names := unix.ParseDirent(t.buffer[:n], -1, nil)
	for _, name := range names {
		if err := t.look(dir, l, name); err != nil {
			return err
		}
	}
	return nil
}

// look sees to one entry of a directory.
func (t *tree) look(dir *os.File, l *level, name string) error {
	var st unix.Stat_t
	err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return fmt.Errorf("looking at %q: %w", name, err)
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return t.file(dir, name, &st)
	}
	l.below = append(l.below, name)
	return nil
}

// into opens a directory in an open one, and goes on in it if it is to be entered. What it does not go on in it closes.
func (t *tree) into(dir *os.File, name string) (*os.File, error) {
	below, err := openDirectoryAt(dir, name)
	if isGone(err) {
		return dir, nil
	}
	if err != nil {
		return dir, fmt.Errorf("opening directory %q: %w", name, err)
	}
	entered, err := t.down(below, name)
	if err != nil || !entered {
		return dir, errors.Join(err, below.Close())
	}
	return below, dir.Close()
}

// down notes that an open directory was entered, unless it is not to be.
func (t *tree) down(dir *os.File, name string) (bool, error) {
	st, err := statOf(dir)
	if err != nil || !t.enter(st) {
		return false, err
	}
	t.levels = append(t.levels, level{device: st.Dev, inode: st.Ino, name: name})
	return true, nil
}

// up leaves a directory for the one it is in, and closes it.
func (t *tree) up(dir *os.File) (*os.File, error) {
	t.levels = t.levels[:len(t.levels)-1]
	if len(t.levels) == 0 {
		return dir, nil
	}
	above, err := openDirectoryAt(dir, "..")
	if err == nil {
		same, err := t.levels[len(t.levels)-1].is(above)
		if err == nil && same {
			return above, dir.Close()
		}
		if err := errors.Join(err, above.Close()); err != nil {
			return dir, err
		}
	} else if !isGone(err) {
		return dir, fmt.Errorf("opening the directory above %q: %w", dir.Name(), err)
	}
	above, err = t.again()
	if err != nil {
		return dir, err
	}
	return above, dir.Close()
}

// again opens the deepest directory of the way down that is where it was, and forgets those below it.
func (t *tree) again() (*os.File, error) {
	dir, err := duplicate(t.top)
	if err != nil {
		return nil, err
	}
	for i, l := range t.levels[1:] {
		below, err := openDirectoryAt(dir, l.name)
		if isGone(err) {
			t.levels = t.levels[:i+1]
			return dir, nil
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("opening directory %q: %w", l.name, err), dir.Close())
		}
		same, err := l.is(below)
		if err != nil || !same {
			t.levels = t.levels[:i+1]
			return dir, errors.Join(err, below.Close())
		}
		if err := dir.Close(); err != nil {
			return nil, errors.Join(err, below.Close())
		}
		dir = below
	}
	return dir, nil
}

// is says whether an open directory is the one that was entered.
func (l level) is(dir *os.File) (bool, error) {
	st, err := statOf(dir)
	if err != nil {
		return false, err
	}
	return st.Dev == l.device && st.Ino == l.inode, nil
}

func statOf(file *os.File) (*unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return nil, fmt.Errorf("looking at %q: %w", file.Name(), err)
	}
	return &st, nil
}

// openDirectoryAt opens a directory in an open one for reading; a link is none.
func openDirectoryAt(dir *os.File, name string) (*os.File, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// isGone says whether an error is that there is no such directory any more.
func isGone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}
