// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/tombolo-dev/tombolo/host"
)

func partOf(path string) host.SubPath {
	return host.SubPath{Volume: "v", Kind: host.EmptyDirVolume, Path: path, Container: "c", Mount: 1}
}

// names are the names in a directory.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]string, 0, len(entries))
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestSubPathIsMadeWithTheModeOfTheVolume(t *testing.T) {
	h := newMountingHost(t)
	withUmask(t)
	volume := ensureVolume(t, h, host.Volume{Name: "v", EmptyDir: true, Memory: true})
	path, err := h.EnsureSubPath(t.Context(), testUID, partOf("a//./b"))
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(h.rootDir, "pods", testUID, "volume-subpaths/v/c/1"); path != want {
		t.Errorf("path %s, want %s", path, want)
	}
	for _, dir := range []string{filepath.Join(volume, "a"), filepath.Join(volume, "a/b"), path} {
		if got := mode(t, dir); got != fs.ModeDir|fs.ModeSticky|0o777 {
			t.Errorf("%s has mode %v", dir, got)
		}
	}
	put(t, filepath.Join(path, "file"), "x")
	if _, err := os.Stat(filepath.Join(volume, "a/b/file")); err != nil {
		t.Error(err)
	}
}

func TestSubPathIsLookedForAnewWhenAskedAgain(t *testing.T) {
	h := newMountingHost(t)
	volume := ensureVolume(t, h, host.Volume{Name: "v", EmptyDir: true})
	put(t, filepath.Join(volume, "file"), "one")
	ensure := func() string {
		t.Helper()
		path, err := h.EnsureSubPath(t.Context(), testUID, partOf("file"))
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	read := func() string {
		t.Helper()
		data, err := os.ReadFile(ensure())
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if got := read(); got != "one" {
		t.Errorf("first %q", got)
	}
	put(t, filepath.Join(volume, "new"), "two")
	if err := os.Rename(filepath.Join(volume, "new"), filepath.Join(volume, "file")); err != nil {
		t.Fatal(err)
	}
	if got := read(); got != "two" {
		t.Errorf("after the file was replaced: %q", got)
	}
	if err := os.Remove(filepath.Join(volume, "file")); err != nil {
		t.Fatal(err)
	}
	if got := mode(t, ensure()); !got.IsDir() {
		t.Errorf("a file that is gone: %v", got)
	}
	if mounts, err := h.mountsBelow(podDir(testUID)); err != nil || len(mounts) != 1 {
		t.Errorf("%d mounts, %v", len(mounts), err)
	}
}

func TestSubPathOfAFileSetIsTheFileOfItsVersion(t *testing.T) {
	h := newMountingHost(t)
	writeFiles(t, h, secretFiles("one"))
	part := host.SubPath{Volume: "s", Kind: host.SecretVolume, Path: "key", Container: "c"}
	path, err := h.EnsureSubPath(t.Context(), testUID, part)
	if err != nil {
		t.Fatal(err)
	}
	writeFiles(t, h, secretFiles("two"))
	if got, err := os.ReadFile(path); string(got) != "one" || err != nil {
		t.Errorf("a mounted part changed to %q, %v", got, err)
	}
	if _, err := h.EnsureSubPath(t.Context(), testUID, part); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); string(got) != "two" || err != nil {
		t.Errorf("at the next start: %q, %v", got, err)
	}
}

func TestSubPathOfAHostPathFollowsLinksThatStayInside(t *testing.T) {
	h := newMountingHost(t)
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "real/deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "real/deep/file"), "x")
	if err := os.Symlink(filepath.Join(dir, "real"), filepath.Join(dir, "link")); err != nil { // absolute, as a host's own
		t.Fatal(err)
	}
	path, err := h.EnsureSubPath(t.Context(), testUID, host.SubPath{Volume: "v", HostPath: dir, Path: "link/deep", Container: "c"})
	if err != nil {
		t.Fatal(err)
	}
	if got := names(t, path); len(got) != 1 || got[0] != "file" {
		t.Errorf("found %q", got)
	}
}

func TestSubPathNeverLeadsOutOfTheVolume(t *testing.T) {
	h := newMountingHost(t)
	volume := ensureVolume(t, h, host.Volume{Name: "v", EmptyDir: true, Memory: true})
	other := ensureVolume(t, h, host.Volume{Name: "other", EmptyDir: true})
	outside := t.TempDir()
	put(t, filepath.Join(outside, "keep"), "x")
	for name, target := range map[string]string{
		"root": "/", "etc": "/etc", "outside": outside, "up": "..", "upup": "../../..", "other": "../other",
		"proc": "/proc/self/root", "fd": "/proc/self/fd", "loop": "loop", "dangling": "/nonexistent/x", "chain": "up/other",
	} {
		if err := os.Symlink(target, filepath.Join(volume, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(volume, "fifo"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"root", "etc", "etc/passwd", "outside", "outside/keep", "outside/new/deep", "up", "upup", "other", "other/x", "proc/etc", "fd/0",
		"loop", "loop/x", "dangling", "dangling/x", "chain", "fifo/x", "up/kubernetes.io~empty-dir/other",
	} {
		if got, err := h.EnsureSubPath(t.Context(), testUID, partOf(path)); err == nil {
			t.Errorf("%s leads to %s with %q", path, got, names(t, got))
		}
	}
	for path, made := range map[string]bool{"etc": false, "outside/keep": false, "fifo/x": false, "outside/new/deep": true, "other/x": true, "dangling": true, "dangling/x": true} {
		if _, err := h.EnsureSubPath(t.Context(), testUID, partOf(path)); errdefs.IsAborted(err) != made {
			t.Errorf("%s: %v; whether it says that something could not be made: want %v", path, err, made)
		}
	}
	for _, path := range []string{"", "..", "../other", "a/../../other", "/etc", "a\x00b"} {
		if _, err := h.EnsureSubPath(t.Context(), testUID, partOf(path)); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%q: %v", path, err)
		}
	}
	if got := names(t, outside); len(got) != 1 {
		t.Errorf("outside: %q", got)
	}
	if got := names(t, other); len(got) != 0 {
		t.Errorf("in another volume: %q", got)
	}
}

// TestSubPathDoesNotLeadOutWhileNamesAreSwapped exchanges a directory and a link to the outside as fast as it can.
func TestSubPathDoesNotLeadOutWhileNamesAreSwapped(t *testing.T) {
	h := newMountingHost(t)
	volume := ensureVolume(t, h, host.Volume{Name: "v", EmptyDir: true})
	outside := t.TempDir()
	put(t, filepath.Join(outside, "outside"), "x")
	if err := os.Mkdir(filepath.Join(volume, "a"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(volume, "b")); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var swapper sync.WaitGroup
	swapper.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(volume, "a"), unix.AT_FDCWD, filepath.Join(volume, "b"), unix.RENAME_EXCHANGE)
			}
		}
	})
	found := 0
	for range 300 {
		path, err := h.EnsureSubPath(t.Context(), testUID, partOf("a/new"))
		if err != nil {
			continue
		}
		found++
		if got := names(t, path); len(got) > 0 {
			t.Fatalf("found %q", got)
		}
	}
	close(done)
	swapper.Wait()
	if got := names(t, outside); len(got) != 1 {
		t.Errorf("outside: %q", got)
	}
	t.Logf("%d of 300 tries found the directory", found)
}

// FuzzResolve looks for a part of a directory that is not in it.
func FuzzResolve(f *testing.F) {
	for _, part := range []string{"a", "a/b", "link/x", "..", "a/../..", "/", "up/x", "\x00", strings.Repeat("a/", 300)} {
		f.Add(part, "..")
	}
	f.Fuzz(func(t *testing.T, part, target string) {
		if checkSubPath(testUID, partOf(part)) != nil {
			return
		}
		base := filepath.Join(t.TempDir(), "volume")
		if err := os.MkdirAll(filepath.Join(base, "a"), 0o755); err != nil {
			t.Fatal(err)
		}
		_ = os.Symlink(target, filepath.Join(base, "link"))
		_ = os.Symlink("..", filepath.Join(base, "up"))
		file, err := openPart(base, false, part)
		if err != nil {
			return
		}
		defer file.Close()
		found, err := os.Readlink(fdPath(file))
		if err != nil || found != base && !strings.HasPrefix(found, base+"/") {
			t.Errorf("%q is %s, %v", part, found, err)
		}
	})
}
