// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package previous

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// ErrNoHistory is returned when there is no earlier version to be had: no git, a copy without its history, or the first commit.
var ErrNoHistory = errors.New("no earlier version of tombolo is at hand")

// unused is how long a binary that nobody asked for stays in the cache.
const unused = 7 * 24 * time.Hour

// product are the paths that the program is built from.
func product() []string {
	return []string{"--", "*.go", "go.mod", "go.sum", ":(exclude)*_test.go", ":(exclude)test", ":(exclude)tools"}
}

// Commit is the version before the one in the work tree that dir is in: the last tag of a version before the current commit,
// else the commit before the newest change of the product, else, if that change is not committed yet, the current commit.
// The error is ErrNoHistory if there is none.
func Commit(ctx context.Context, dir string) (string, error) {
	top, err := git(ctx, dir, "rev-parse", "--show-toplevel")
	if err != nil {
		return "", errors.Join(ErrNoHistory, err)
	}
	if tag, err := git(ctx, top, "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD~"); err == nil {
		return git(ctx, top, "rev-parse", "--verify", tag+"^{commit}")
	}
	changes, err := git(ctx, top, append([]string{"status", "--porcelain"}, product()...)...)
	if err != nil {
		return "", errors.Join(ErrNoHistory, err)
	}
	if changes != "" {
		return git(ctx, top, "rev-parse", "--verify", "HEAD")
	}
	newest, err := git(ctx, top, append([]string{"log", "-1", "--format=%H"}, product()...)...)
	if err != nil {
		return "", errors.Join(ErrNoHistory, err)
	}
	before, err := git(ctx, top, "rev-parse", "--verify", "--quiet", newest+"~")
	if err != nil {
		return "", fmt.Errorf("%w: the history ends with commit %s; git fetch --unshallow brings the rest, if there is one", ErrNoHistory, newest)
	}
	return before, nil
}

// Build returns the binary of a commit of the repository that dir is in. It is kept in the folder cache.
func Build(ctx context.Context, dir, commit, cache string) (string, error) {
	folder := filepath.Join(cache, "previous", commit+"-"+runtime.Version())
	binary := filepath.Join(folder, "tombolo")
	if now := time.Now(); os.Chtimes(folder, now, now) == nil && exists(binary) {
		return binary, nil
	}
	prune(filepath.Dir(folder))
	sources, err := os.MkdirTemp("", "tombolo-previous-")
	if err != nil {
		return "", fmt.Errorf("building commit %s: %w", commit, err)
	}
	defer os.RemoveAll(sources)
	if err := unpack(ctx, dir, commit, sources); err != nil {
		return "", fmt.Errorf("reading commit %s: %w", commit, err)
	}
	built := filepath.Join(sources, "bin", "tombolo")
	// What is the same in both versions comes from the cache of the go command, since -trimpath leaves the folder out of it.
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-X main.version=previous-"+commit, "-o", built, "./cmd/tombolo")
	cmd.Dir = sources
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building commit %s: %w\n%s", commit, err, out)
	}
	if err := store(built, binary); err != nil {
		return "", fmt.Errorf("keeping the binary of commit %s: %w", commit, err)
	}
	return binary, nil
}

// unpack writes the files of a commit to a folder.
func unpack(ctx context.Context, dir, commit, to string) error {
	top, err := git(ctx, dir, "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	archive := filepath.Join(to, "sources.tar")
	if _, err := git(ctx, top, "archive", "--format=tar", "--output="+archive, commit); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "tar", "-x", "-f", archive, "-C", to).CombinedOutput(); err != nil {
		return fmt.Errorf("unpacking: %w: %s", err, out)
	}
	return os.Remove(archive)
}

// store copies a file so that it appears as a whole.
func store(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	part := fmt.Sprintf("%s.%d", to, os.Getpid())
	if err := os.WriteFile(part, data, 0o755); err != nil {
		return err
	}
	return os.Rename(part, to)
}

// prune removes binaries that were not used for long. A binary in use is not hurt by that.
func prune(folder string) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return // nothing was kept yet
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > unused {
			_ = os.RemoveAll(filepath.Join(folder, e.Name()))
		}
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// git runs a git command in a folder and returns what it prints.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), nil
}
