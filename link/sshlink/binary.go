// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package sshlink

import (
	"cmp"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"sync"
)

// ownExecutable is the program of this process, also after its file was replaced.
const ownExecutable = "/proc/self/exe"

// Binaries are the programs that can be put on hosts.
type Binaries struct {
	// Dir has a program for each architecture, tombolo-linux-ARCH with Go's name of it. Without it, or without a file of the
	// architecture of this process, there is the program of this process.
	Dir string

	own   string // another program than that of this process, for tests
	mu    sync.Mutex
	known map[string]*binary // by path; what was read once is not read again until it changes
}

// binary is a program for one architecture.
type binary struct {
	path string
	size int64
	sum  string // SHA-256, in hexadecimal
	info os.FileInfo
}

// file is where the program is on a host.
func (b *binary) file(where place) string { return path.Join(where.cache, b.sum, "tombolo") }

func (b *binary) open() (*os.File, error) { return os.Open(b.path) }

// find returns the program for a host.
func (b *Binaries) find(where place) (*binary, error) {
	own := where.arch == runtime.GOARCH
	if b.Dir != "" {
		name := filepath.Join(b.Dir, "tombolo-linux-"+where.arch)
		found, err := b.read(name, where.arch)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return found, err
		}
		if !own {
			return nil, fmt.Errorf("the host is linux/%s and this program linux/%s: put tombolo for linux/%s there as %s (GOOS=linux GOARCH=%s make build)",
				where.arch, runtime.GOARCH, where.arch, name, where.arch)
		}
	}
	if !own {
		return nil, fmt.Errorf("the host is linux/%s and this program linux/%s: give --host-ssh-binary-dir, a directory with tombolo for linux/%s as the file tombolo-linux-%s "+
			"(GOOS=linux GOARCH=%s make build)", where.arch, runtime.GOARCH, where.arch, where.arch, where.arch)
	}
	return b.read(cmp.Or(b.own, ownExecutable), "")
}

// read makes the checksum of a file. It must be a program for the architecture, unless that is empty.
func (b *Binaries) read(name, arch string) (*binary, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("opening the program for the host: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("opening the program for the host: %w", err)
	}
	if known := b.known[name]; known != nil && os.SameFile(known.info, info) && known.info.ModTime().Equal(info.ModTime()) && known.size == info.Size() {
		return known, nil
	}
	if arch != "" {
		if err := checkMachine(file, arch); err != nil {
			return nil, fmt.Errorf("%s is no program for linux/%s: %w", name, arch, err)
		}
	}
	digest := sha256.New()
	size, err := io.Copy(digest, file)
	if err != nil {
		return nil, fmt.Errorf("reading the program for the host: %w", err)
	}
	read := &binary{path: name, size: size, sum: hex.EncodeToString(digest.Sum(nil)), info: info}
	if b.known == nil {
		b.known = map[string]*binary{}
	}
	b.known[name] = read
	return read, nil
}

// machines are what the header of a program says of its architecture.
var machines = map[string]elf.Machine{
	"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "arm": elf.EM_ARM, "386": elf.EM_386, "riscv64": elf.EM_RISCV,
	"s390x": elf.EM_S390, "ppc64le": elf.EM_PPC64, "ppc64": elf.EM_PPC64, "loong64": elf.EM_LOONGARCH, "mips64": elf.EM_MIPS,
}

func checkMachine(file *os.File, arch string) error {
	program, err := elf.NewFile(file)
	if err != nil {
		return err
	}
	if program.Machine != machines[arch] {
		return fmt.Errorf("its header says %s", program.Machine)
	}
	_, err = file.Seek(0, io.SeekStart)
	return err
}
