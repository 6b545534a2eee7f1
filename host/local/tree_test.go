// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// walked goes through a directory and returns the names of files, and of directories when they are left. At each file at is called.
func walked(t *testing.T, path string, at func(name string)) []string {
	t.Helper()
	top, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	var seen []string
	tr := tree{
		enter: func(*unix.Stat_t) bool { return true },
		file: func(_ *os.File, name string, _ *unix.Stat_t) error {
			seen = append(seen, name)
			at(name)
			return nil
		},
		leave: func(*os.File) error {
			seen = append(seen, "/")
			return nil
		},
	}
	if err := tr.walk(t.Context(), top); err != nil {
		t.Fatal(err)
	}
	return seen
}

// deep makes directories in each other, each with a second one beside it, and a file in the deepest.
func deep(t *testing.T, levels int) string {
	t.Helper()
	dir := t.TempDir()
	fd, err := unix.Open(dir, unix.O_PATH, 0)
	for n := 0; err == nil && n < levels; n++ {
		err = errors.Join(unix.Mkdirat(fd, "d", 0o755), unix.Mkdirat(fd, "e", 0o755))
		var next int
		if err == nil {
			next, err = unix.Openat(fd, "d", unix.O_PATH, 0)
		}
		err = errors.Join(err, unix.Close(fd))
		fd = next
	}
	var file int
	if err == nil {
		file, err = unix.Openat(fd, "file", unix.O_CREAT|unix.O_WRONLY, 0o600)
	}
	if err == nil {
		_, err = unix.Write(file, make([]byte, 1<<20))
	}
	if err := errors.Join(err, unix.Close(file), unix.Close(fd)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestTreeIsWalkedHoweverDeepItIs(t *testing.T) {
	const levels = 3000 // the path of the deepest is longer than the kernel takes
	dir := deep(t, levels)
	seen := walked(t, dir, func(string) {})
	if files, dirs := count(seen, "file"), count(seen, "/"); files != 1 || dirs != 2*levels+1 {
		t.Errorf("%d files and %d directories, want 1 and %d", files, dirs, 2*levels+1)
	}
	root, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if u, err := diskUsage(t.Context(), root, filepath.Base(dir)); err != nil || u.bytes < 1<<20 {
		t.Errorf("%d bytes, %v; want the deepest file counted", u.bytes, err)
	}
}

func count(seen []string, what string) int {
	return len(slices.DeleteFunc(slices.Clone(seen), func(s string) bool { return s != what }))
}

func TestTreeWithManyEntriesIsWalkedWhole(t *testing.T) {
	dir := t.TempDir()
	want := map[string]int{"/": 51}
	for n := range 5000 { // more than are read at once
		name := fmt.Sprintf("file-with-a-long-name-%06d", n)
		put(t, filepath.Join(dir, name), "")
		want[name] = 1
		if n%100 == 0 {
			put(t, filepath.Join(dir, "dir"+strconv.Itoa(n), "inner"+strconv.Itoa(n)), "")
			want["inner"+strconv.Itoa(n)] = 1
		}
	}
	got := map[string]int{}
	for _, name := range walked(t, dir, func(string) {}) {
		got[name]++
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestTreeIsNotLeftByTheWayUp: a directory that is moved while it is looked at takes what is above it along.
func TestTreeIsNotLeftByTheWayUp(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	for _, path := range []string{"a/b/c/moves", "a/b/stays", "a/stays-too"} {
		put(t, filepath.Join(dir, path), "")
	}
	put(t, filepath.Join(outside, "secret"), "")
	put(t, filepath.Join(outside, "other/secret"), "")
	seen := walked(t, dir, func(name string) {
		if name != "moves" {
			return
		}
		if err := os.Rename(filepath.Join(dir, "a/b"), filepath.Join(outside, "b")); err != nil {
			t.Fatal(err)
		}
	})
	if slices.Contains(seen, "secret") || !slices.Contains(seen, "moves") || !slices.Contains(seen, "stays-too") {
		t.Errorf("seen %q", seen)
	}
}

func TestWalkEndsWithItsContext(t *testing.T) {
	top, err := os.Open(deep(t, 3))
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	ctx, cancel := context.WithCancel(t.Context())
	tr := tree{
		enter: func(*unix.Stat_t) bool { return true }, leave: func(*os.File) error { return nil },
		file: func(*os.File, string, *unix.Stat_t) error { cancel(); return nil },
	}
	if err := tr.walk(ctx, top); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	failed := errors.New("it fails")
	tr.leave = func(*os.File) error { return failed }
	if err := tr.walk(t.Context(), top); !errors.Is(err, failed) {
		t.Errorf("got %v, want what was returned to it", err)
	}
	if _, err := top.Stat(); err != nil {
		t.Errorf("the directory was closed: %v", err)
	}
}
