// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/tombolo-dev/tombolo/host"
)

// shore is a directory of the host that a pod may have, "shared", and one that it may not, "secret".
func shore(t *testing.T) (shared, secret string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	shared, secret = filepath.Join(dir, "shared"), filepath.Join(dir, "secret")
	for _, path := range []string{shared, secret, filepath.Join(shared, "part")} {
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(t, filepath.Join(shared, "part", "mine"), "x")
	put(t, filepath.Join(secret, "gold"), "x")
	return shared, secret
}

func pin(path string) host.PinnedPath {
	return host.PinnedPath{Path: path, Container: "c", Mount: 2}
}

// swap replaces a directory by a link.
func swap(t *testing.T, path, target string) {
	t.Helper()
	if err := errors.Join(os.Rename(path, path+"-away"), os.Symlink(target, path)); err != nil {
		t.Fatal(err)
	}
}

func TestPinnedPathStaysWhatItWas(t *testing.T) {
	h := newMountingHost(t)
	shared, secret := shore(t)
	part := filepath.Join(shared, "part")
	path, err := h.PinPath(t.Context(), testUID, pin(part))
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(h.rootDir, "pods", testUID, "volume-hostpaths/c/2"); path != want {
		t.Errorf("path %s, want %s", path, want)
	}
	swap(t, part, secret)
	if got := names(t, path); len(got) != 1 || got[0] != "mine" {
		t.Errorf("after it was swapped it holds %q", got)
	}
	if _, err := h.PinPath(t.Context(), testUID, pin(part)); !errdefs.IsPermissionDenied(err) {
		t.Errorf("a link: %v", err)
	}
	if _, err := h.PinPath(t.Context(), testUID, pin(filepath.Join(part, "gold"))); !errdefs.IsPermissionDenied(err) {
		t.Errorf("something behind a link: %v", err)
	}
	if err := h.RemovePod(t.Context(), testUID, true); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(part+"-away", "mine")); err != nil {
		t.Errorf("what was pinned went with the pod: %v", err)
	}
}

// TestSwappedDirectoryIsNeverPinned swaps without pause while a path is pinned again and again.
func TestSwappedDirectoryIsNeverPinned(t *testing.T) {
	h := newMountingHost(t)
	shared, secret := shore(t)
	part, away, link := filepath.Join(shared, "part"), filepath.Join(shared, "away"), filepath.Join(shared, "link")
	if err := os.Symlink(secret, link); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = unix.Rename(part, away)
			_ = unix.Rename(link, part)
			_ = unix.Rename(part, link)
			_ = unix.Rename(away, part)
		}
	})
	pinned := 0
	for range 300 {
		path, err := h.PinPath(t.Context(), testUID, pin(part))
		if err != nil {
			continue
		}
		pinned++
		if got := names(t, path); len(got) != 1 || got[0] != "mine" {
			t.Errorf("it holds %q", got)
		}
	}
	close(stop)
	swapping.Wait()
	if pinned == 0 {
		t.Error("it was never pinned")
	}
}

func TestPinnedPathHasWhatIsMountedBelowIt(t *testing.T) {
	h := newMountingHost(t)
	shared, _ := shore(t)
	mount := func(target, kind string, flags uintptr) {
		t.Helper()
		if err := unix.Mount(kind, target, kind, flags, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(target, unix.MNT_DETACH) })
	}
	mount(shared, tmpfs, 0)
	mount(shared, "", unix.MS_SHARED)
	before, after := filepath.Join(shared, "before"), filepath.Join(shared, "after")
	for _, dir := range []string{before, after} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mount(before, tmpfs, 0)
	put(t, filepath.Join(before, "one"), "x")
	path, err := h.PinPath(t.Context(), testUID, pin(shared))
	if err != nil {
		t.Fatal(err)
	}
	mount(after, tmpfs, 0)
	put(t, filepath.Join(after, "two"), "x")
	for _, file := range []string{"before/one", "after/two"} {
		if _, err := os.Stat(filepath.Join(path, file)); err != nil {
			t.Error(err)
		}
	}
	if err := h.RemovePod(t.Context(), testUID, true); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"before/one", "after/two"} { // still mounted where they come from
		if _, err := os.Stat(filepath.Join(shared, file)); err != nil {
			t.Error(err)
		}
	}
	if mounts, err := h.mountsBelow(podDir(testUID)); err != nil || len(mounts) != 0 {
		t.Errorf("%d mounts are left, %v", len(mounts), err)
	}
}

func TestFilesArePinnedAndMissingDirectoriesMade(t *testing.T) {
	h := newMountingHost(t)
	shared, _ := shore(t)
	path, err := h.PinPath(t.Context(), testUID, pin(filepath.Join(shared, "part", "mine")))
	if err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(path); string(data) != "x" {
		t.Errorf("the file holds %q, %v", data, err)
	}
	hook := pin(filepath.Join(shared, "part"))
	hook.Container = "c.exit-hook"
	if path, err := h.PinPath(t.Context(), testUID, hook); err != nil || len(names(t, path)) != 1 {
		t.Errorf("for the container of a hook: %q, %v", path, err)
	}
	missing := pin(filepath.Join(shared, "new", "deep"))
	if _, err := h.PinPath(t.Context(), testUID, missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing directory: %v", err)
	}
	missing.Make = true
	if path, err = h.PinPath(t.Context(), testUID, missing); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(path, "file"), "x")
	if _, err := os.Stat(filepath.Join(missing.Path, "file")); err != nil {
		t.Error(err)
	}
}

func TestOnlyWhatTheHostMadeForPodsIsGivenToThem(t *testing.T) {
	h, _ := newTestHost(t)
	pods := filepath.Join(h.rootDir, "pods")
	for rel, made := range map[string]bool{
		"u/etc-hosts": true, "u/volumes/kubernetes.io~secret/s": true, "u/containers/c/file": true, "u/volume-subpaths/v/c/0": true,
		"u": false, "u/volumes": false, "u/volumes/kubernetes.io~secret": false, "u/volumes/kubernetes.io~empty-dir/v/link": false,
		"u/volume-subpaths/v/c/0/link": false, "u/volume-subpaths/v/c": false, "u/volume-hostpaths/c/0": false, "u/plugins/x/y": false,
	} {
		path, err := h.PinPath(t.Context(), testUID, pin(filepath.Join(pods, rel)))
		if made && (err != nil || path != filepath.Join(pods, rel)) {
			t.Errorf("%s: %q, %v", rel, path, err)
		}
		if !made && !errdefs.IsPermissionDenied(err) {
			t.Errorf("%s: %v", rel, err)
		}
	}
	for _, bad := range []host.PinnedPath{{Path: "rel", Container: "c"}, {Path: "/a/../b", Container: "c"}, {Path: "/a", Container: "../c"}, {Path: "/a", Container: "c", Mount: -1}} {
		if _, err := h.PinPath(t.Context(), testUID, bad); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if _, err := h.PinPath(t.Context(), "../u", pin("/a")); !errdefs.IsInvalidArgument(err) {
		t.Errorf("a bad UID: %v", err)
	}
}
