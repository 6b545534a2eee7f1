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

// formatVersion changes when the content of the standard images changes without one of their programs changing.
const formatVersion = "1"

// Archive returns the path of an OCI archive with the standard images, assembling it under the folder cache unless it is
// there. parts is the folder with pause and agnhost; busybox must be on the PATH, statically linked.
func Archive(ctx context.Context, parts, cache string) (string, error) {
	programs, err := findPrograms(ctx, parts)
	if err != nil {
		return "", err
	}
	key, err := programs.key()
	if err != nil {
		return "", err
	}
	archive := filepath.Join(cache, "images", key+".tar")
	if _, err := os.Stat(archive); err == nil {
		return archive, nil
	}
	if err := os.MkdirAll(filepath.Dir(archive), 0o755); err != nil {
		return "", fmt.Errorf("assembling images: %w", err)
	}
	// A temporary name and a rename: an archive that exists is whole, whoever made it.
	f, err := os.CreateTemp(filepath.Dir(archive), key+".*.part")
	if err != nil {
		return "", fmt.Errorf("assembling images: %w", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	buffered := bufio.NewWriterSize(f, 1<<20)
	if err := Write(buffered, Standard(programs)...); err != nil {
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

func findPrograms(ctx context.Context, parts string) (Programs, error) {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return Programs{}, fmt.Errorf("finding busybox for the images: %w; install the package busybox-static", err)
	}
	out, err := exec.CommandContext(ctx, busybox, "--list-full").Output()
	if err != nil {
		return Programs{}, fmt.Errorf("asking busybox for its applets: %w", err)
	}
	return Programs{Parts: parts, Busybox: busybox, Applets: strings.Fields(string(out))}, nil
}

// key is a hash of the programs' content.
func (p Programs) key() (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, formatVersion, strings.Join(p.Applets, " "))
	for _, name := range []string{p.Busybox, filepath.Join(p.Parts, "pause"), filepath.Join(p.Parts, "agnhost")} {
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
