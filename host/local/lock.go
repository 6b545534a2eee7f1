// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// lockFile is locked by the process that uses a root directory and has its process id in it.
const lockFile = "lock"

// lock is the right to use a root directory. The kernel takes it back when the process ends in any way.
type lock struct{ file *os.File }

func takeLock(root *os.Root, dir string) (*lock, error) {
	file, err := root.OpenFile(lockFile, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of %s: %w", dir, err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder := readHolder(file)
		closing := file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("the root directory %s is in use by another tombolo process (pid %s); stop that one or choose another directory: %w",
				dir, holder, errdefs.ErrFailedPrecondition)
		}
		return nil, fmt.Errorf("locking %s: %w", dir, errors.Join(err, closing))
	}
	if err := writeHolder(file); err != nil {
		return nil, fmt.Errorf("writing the lock of %s: %w", dir, errors.Join(err, file.Close()))
	}
	return &lock{file: file}, nil
}

func readHolder(file *os.File) string {
	text := make([]byte, 32)
	n, _ := file.ReadAt(text, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text[:n])))
	if err != nil {
		return "unknown"
	}
	return strconv.Itoa(pid)
}

func writeHolder(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func (l *lock) release() error { return l.file.Close() }
