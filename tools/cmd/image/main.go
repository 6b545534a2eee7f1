// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Command image builds tombolo for every architecture and assembles the container image of it, without a builder or a registry.
// Beside the archive it writes the bill of materials of each program.
//
// Run it from the repository as: go run -C tools ./cmd/image -version VERSION -out FILE
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tombolo-dev/tombolo/tools/internal/image"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	version := flag.String("version", "v0.0.0", "version of the program and tag of the image")
	name := flag.String("name", "ghcr.io/tombolo-dev/tombolo", "name of the image")
	out := flag.String("out", "../bin/tombolo-image.tar", "archive to write")
	archs := flag.String("arch", "amd64,arm64", "architectures, separated by commas")
	flag.Parse()
	if err := run(ctx, *version, *name, *out, strings.Split(*archs, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, version, name, out string, archs []string) error {
	created, err := commitTime(ctx)
	if err != nil {
		return err
	}
	stamp := image.Stamp{Version: version, Commit: commit(ctx), Created: created}
	work, err := os.MkdirTemp("", "tombolo-build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	programs := map[string][]byte{}
	for _, arch := range archs {
		file := filepath.Join(work, arch)
		if err := image.Build(ctx, "..", arch, stamp, file); err != nil {
			return err
		}
		if programs[arch], err = os.ReadFile(file); err != nil {
			return err
		}
	}
	index, err := image.Assemble(programs, version, created)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	tag := name + ":" + strings.ReplaceAll(version, "+", "_")
	if err := image.Write(index, tag, out); err != nil {
		return err
	}
	fmt.Printf("%s: %s@%s\n", out, tag, digest)
	return writeSBOMs(programs, version, created, out)
}

// writeSBOMs writes the bill of materials of each program beside the archive.
func writeSBOMs(programs map[string][]byte, version string, created time.Time, out string) error {
	for _, arch := range slices.Sorted(maps.Keys(programs)) {
		data, err := image.SBOM(programs[arch], version, created)
		if err != nil {
			return err
		}
		file := strings.TrimSuffix(out, ".tar") + "-" + arch + ".cdx.json"
		if err := os.WriteFile(file, data, 0o644); err != nil {
			return err
		}
		fmt.Println(file)
	}
	return nil
}

// commit is the last commit, "" outside of a repository.
func commit(ctx context.Context) string {
	data, err := exec.CommandContext(ctx, "git", "rev-parse", "HEAD").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// commitTime is $SOURCE_DATE_EPOCH, else the time of the last commit, so that the same sources make the same image.
func commitTime(ctx context.Context) (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		data, err := exec.CommandContext(ctx, "git", "log", "-1", "--format=%ct").Output()
		if err != nil {
			return time.Time{}, fmt.Errorf("asking git for the time of the last commit (or set SOURCE_DATE_EPOCH): %w", err)
		}
		text = strings.TrimSpace(string(data))
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH %q: give seconds since 1970", text)
	}
	return time.Unix(seconds, 0), nil
}
