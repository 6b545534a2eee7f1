// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// A File is a file of a machine. It has one of Data, Source and Link.
type File struct {
	// Path is absolute.
	Path string
	// Mode is 0644 unless it is given.
	Mode os.FileMode
	Data string
	// Source is a file of this side.
	Source string
	// Link is what a symbolic link points to.
	Link string
}

// payloadDir is where the disk with the files is on the machine.
const payloadDir = "/opt/vm"

// makePayload makes a disk in the folder dir: of files that the machine copies from it, and of others that it reads there.
func makePayload(ctx context.Context, dir string, files, readOnly []File) (disk string, err error) {
	tree, size := filepath.Join(dir, "payload"), int64(0)
	for below, some := range map[string][]File{"files": files, ".": readOnly} {
		for _, f := range some {
			n, err := f.place(filepath.Join(tree, below))
			if err != nil {
				return "", fmt.Errorf("putting %s onto the machine: %w", f.Path, err)
			}
			size += n
		}
	}
	disk = filepath.Join(dir, "payload.ext4")
	format := exec.CommandContext(ctx, "mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-d", tree, disk, strconv.FormatInt(payloadKiB(size), 10))
	if out, err := format.CombinedOutput(); err != nil {
		return "", fmt.Errorf("making the disk with the files: %w: %s", err, out)
	}
	return disk, os.RemoveAll(tree)
}

// payloadKiB is how large a disk for so many bytes of files is: with room for what the file system needs itself.
func payloadKiB(bytes int64) int64 { return (bytes+bytes/8)/1024 + 32<<10 }

// place writes the file below a folder and returns its size.
func (f File) place(below string) (int64, error) {
	if !filepath.IsAbs(f.Path) || strings.HasSuffix(f.Path, "/") {
		return 0, fmt.Errorf("%q is no absolute path of a file", f.Path)
	}
	name := filepath.Join(below, f.Path)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return 0, err
	}
	if f.Link != "" {
		return 0, os.Symlink(f.Link, name)
	}
	mode := f.mode()
	var content io.Reader = strings.NewReader(f.Data)
	if f.Source != "" {
		source, err := os.Open(f.Source)
		if err != nil {
			return 0, err
		}
		defer source.Close()
		content = source
	}
	out, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if errors.Is(err, fs.ErrExist) {
		return 0, errors.New("two files have that path")
	}
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(out, content)
	// Whatever the umask.
	return n, errors.Join(err, out.Chmod(mode), out.Close())
}

func (f File) mode() os.FileMode { return cmp.Or(f.Mode, 0o644) }
