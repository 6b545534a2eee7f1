// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Version changes when the content of the images changes without one of their programs changing.
const Version = "3"

// A Set is a choice of images for a purpose.
type Set string

// The sets.
const (
	// StandardSet are the images of Standard, enough for demos and end-to-end tests.
	StandardSet Set = ""
	// ConformanceSet are the images of Conformance, among them all those of StandardSet.
	ConformanceSet Set = "conformance"
)

// images returns the images of the set.
func (s Set) images(p Programs) ([]Image, error) {
	if s == ConformanceSet {
		return Conformance(p)
	}
	return Standard(p), nil
}

// Archive returns the path of an OCI archive with the images of a set, assembling it under the folder cache unless it is
// there. parts is the folder with pause and agnhost; busybox must be on the PATH, statically linked, and for the conformance
// images bash-static too.
func Archive(ctx context.Context, set Set, parts, cache string) (string, error) {
	if err := os.MkdirAll(filepath.Join(cache, "images"), 0o755); err != nil {
		return "", fmt.Errorf("assembling images: %w", err)
	}
	programs, done, err := findPrograms(ctx, set, parts, cache)
	if err != nil {
		return "", err
	}
	defer done()
	key, err := programs.key()
	if err != nil {
		return "", err
	}
	archive := filepath.Join(cache, "images", key+".tar")
	if _, err := os.Stat(archive); err == nil {
		return archive, nil
	}
	all, err := set.images(programs)
	if err != nil {
		return "", err
	}
	// A temporary name and a rename: an archive that exists is whole, whoever made it.
	f, err := os.CreateTemp(filepath.Dir(archive), key+".*.part")
	if err != nil {
		return "", fmt.Errorf("assembling images: %w", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	buffered := bufio.NewWriterSize(f, 1<<20)
	if err := Write(buffered, all...); err != nil {
		return "", err
	}
	if err := buffered.Flush(); err != nil {
		return "", fmt.Errorf("assembling images: %w", err)
	}
	if err := f.Close(); err != nil {
		return "", fmt.Errorf("assembling images: %w", err)
	}
	if err := os.Rename(f.Name(), archive); err != nil {
		return "", fmt.Errorf("assembling images: %w", err)
	}
	return archive, nil
}

// findPrograms finds or makes the programs of a set. done removes those that were made.
func findPrograms(ctx context.Context, set Set, parts, cache string) (p Programs, done func(), err error) {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return p, nil, fmt.Errorf("finding busybox for the images: %w; install the package busybox-static", err)
	}
	out, err := exec.CommandContext(ctx, busybox, "--list-full").Output()
	if err != nil {
		return p, nil, fmt.Errorf("asking busybox for its applets: %w", err)
	}
	p = Programs{Parts: parts, Busybox: busybox, Applets: strings.Fields(string(out))}
	if set != ConformanceSet {
		return p, func() {}, nil
	}
	if p.Bash, err = exec.LookPath("bash-static"); err != nil {
		return p, nil, fmt.Errorf("finding bash for the images: %w; install the package bash-static", err)
	}
	dir, err := os.MkdirTemp(filepath.Join(cache, "images"), "userland.*")
	if err != nil {
		return p, nil, fmt.Errorf("building the userland of the images: %w", err)
	}
	p.Userland = filepath.Join(dir, "userland")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", p.Userland,
		"github.com/tombolo-dev/tombolo/test/images/userland")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		os.RemoveAll(dir)
		return p, nil, fmt.Errorf("building the userland of the images: %w\n%s", err, out)
	}
	return p, func() { os.RemoveAll(dir) }, nil
}

// key is a hash of the programs' content.
func (p Programs) key() (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, Version, strings.Join(p.Applets, " "))
	for _, name := range []string{p.Busybox, filepath.Join(p.Parts, "pause"), filepath.Join(p.Parts, "agnhost"), p.Bash, p.Userland} {
		if name == "" {
			continue
		}
		f, err := os.Open(name)
		if err != nil {
			return "", fmt.Errorf("reading a program for the images: %w", err)
		}
		_, err = io.Copy(h, f)
		f.Close()
		if err != nil {
			return "", fmt.Errorf("reading a program for the images: %w", err)
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}
