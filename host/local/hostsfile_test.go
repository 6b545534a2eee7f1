// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/tombolo-dev/tombolo/host"
)

func TestHostsFileChangesInPlace(t *testing.T) {
	h, _ := newTestHost(t)
	withUmask(t)
	ensure := func(content string) string {
		t.Helper()
		path, err := h.EnsureHostsFile(t.Context(), testUID, []byte(content))
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	path := ensure("127.0.0.1 localhost\n10.0.0.7 web\n")
	if want := filepath.Join(h.rootDir, "pods", testUID, "etc-hosts"); path != want {
		t.Errorf("path %s, want %s", path, want)
	}
	if got := mode(t, path); got != 0o644 {
		t.Errorf("mode %v", got)
	}
	mounted, err := os.Open(path) // what a container has
	if err != nil {
		t.Fatal(err)
	}
	defer mounted.Close()
	before, err := mounted.Stat()
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"short\n", "a line that is longer than the first\nand one more\n", ""} {
		if again := ensure(content); again != path {
			t.Errorf("another path: %s", again)
		}
		if is, err := os.ReadFile(path); err != nil || string(is) != content {
			t.Errorf("content %q, %v, want %q", is, err, content)
		}
	}
	after, err := os.Stat(path)
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("a container would not see the change: another file, %v", err)
	}
}

func TestHostsFileOfTheSameContentIsNotWritten(t *testing.T) {
	h, _ := newTestHost(t)
	path, err := h.EnsureHostsFile(t.Context(), testUID, []byte("x\n"))
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.EnsureHostsFile(t.Context(), testUID, []byte("x\n")); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(path); err != nil || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("it was written: %v", err)
	}
}

func TestHostsFileHasALargestSize(t *testing.T) {
	h, _ := newTestHost(t)
	if _, err := h.EnsureHostsFile(t.Context(), testUID, make([]byte, host.MaxHostsFile+1)); !errdefs.IsInvalidArgument(err) {
		t.Errorf("got %v", err)
	}
}
