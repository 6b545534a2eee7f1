// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
)

// Builder builds parts into a cache folder. Its methods may be called by several goroutines and processes at once.
type Builder struct {
	pins  string    // the folder tools/parts
	cache string    // the cache folder
	out   io.Writer // progress lines
}

// New returns a builder that reads pins from the folder pins, keeps results under cache and writes progress to out.
func New(pins, cache string, out io.Writer) *Builder {
	return &Builder{pins: pins, cache: cache, out: out}
}

// DefaultCache is $TOMBOLO_CACHE, else tombolo in the user's cache folder ($XDG_CACHE_HOME or ~/.cache).
func DefaultCache() (string, error) {
	if dir := os.Getenv("TOMBOLO_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding a cache folder: %w; set TOMBOLO_CACHE", err)
	}
	return filepath.Join(dir, "tombolo"), nil
}

// target is a part with its pin and its place in the cache resolved.
type target struct {
	Part
	pin
	key    string
	folder string // tools/parts/<folder>
	binary string // where the binary is, or will be
}

func (b *Builder) target(p Part) (target, error) {
	folder := filepath.Join(b.pins, p.Folder)
	pinned, err := readPin(folder, p.Module)
	if err != nil {
		return target{}, fmt.Errorf("part %s: %w", p.Name, err)
	}
	k := key(p, pinned, toolchain())
	return target{
		Part: p, pin: pinned, key: k, folder: folder,
		binary: filepath.Join(b.cache, "parts", p.Name, pinned.version+"-"+k, p.Name),
	}, nil
}

// built tells whether the binary exists. Builds end with a rename, so a binary that exists is whole.
func (t target) built() bool {
	info, err := os.Stat(t.binary)
	return err == nil && info.Mode().IsRegular()
}

// toolchain names the compiler: the builder runs through "go run" and so was compiled by the one that compiles the parts.
func toolchain() string {
	return runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
}

// Path returns where the binary of a part is. It is an error if it was not built yet.
func (b *Builder) Path(name string) (string, error) {
	for _, p := range Catalogue() {
		if p.Name != name {
			continue
		}
		t, err := b.target(p)
		if err != nil {
			return "", err
		}
		if !t.built() {
			return "", fmt.Errorf("part %s %s is not built: run go run -C tools ./cmd/parts build %s", name, t.version, name)
		}
		return t.binary, nil
	}
	return "", fmt.Errorf("unknown part %q", name)
}

// Bin returns the folder with links to the binaries that belong to the present state of the pins. Build adds a link for
// each part it built or found; another checkout with other pins has another folder.
func (b *Builder) Bin() (string, error) {
	h := sha256.New()
	for _, p := range Catalogue() {
		t, err := b.target(p)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %s\n", t.Name, t.key)
	}
	return filepath.Join(b.cache, "bin", hex.EncodeToString(h.Sum(nil))[:12]), nil
}

// link puts a link to the binary into the folder bin, replacing one that points elsewhere.
func link(bin string, t target) error {
	name := filepath.Join(bin, t.Name)
	relative, err := filepath.Rel(bin, t.binary)
	if err != nil {
		return fmt.Errorf("linking %s: %w", t.Name, err)
	}
	if current, err := os.Readlink(name); err == nil && current == relative {
		return nil
	}
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return fmt.Errorf("linking %s: %w", t.Name, err)
	}
	// Rename makes the change visible at once to whoever uses the folder meanwhile.
	temporary := fmt.Sprintf("%s.%d", name, os.Getpid())
	if err := os.Symlink(relative, temporary); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("linking %s: %w", t.Name, err)
	}
	if err := os.Rename(temporary, name); err != nil {
		return fmt.Errorf("linking %s: %w", t.Name, err)
	}
	return nil
}
