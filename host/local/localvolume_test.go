// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/containerd/errdefs"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/host"
)

// owned describes mode and group of a file.
func owned(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatal("no stat")
	}
	return fmt.Sprintf("%v %d", info.Mode(), st.Gid)
}

func TestLocalVolumeIsGivenToTheGroupOfThePod(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may give files away")
	}
	h, _ := newTestHost(t)
	dir, outside := t.TempDir(), t.TempDir()
	put(t, filepath.Join(dir, "a/file"), "x")
	put(t, filepath.Join(outside, "secret"), "x")
	for _, link := range []string{"to-file", "a/to-dir"} {
		if err := os.Symlink(map[string]string{"to-file": filepath.Join(outside, "secret"), "a/to-dir": outside}[link], filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{dir, outside} {
		if err := os.Chmod(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	volume := host.Volume{Name: "v", Local: &host.LocalVolume{Path: dir, FSGroup: ptr.To[int64](4321), OnRootMismatch: true}}
	if path := ensureVolume(t, h, volume); path != dir {
		t.Errorf("the volume is at %s, want %s", path, dir)
	}
	for path, want := range map[string]string{
		dir: "dgrwxrwx--- 4321", filepath.Join(dir, "a"): "dgrwxrwxr-x 4321", filepath.Join(dir, "a/file"): "-rw-rw-r-- 4321",
		filepath.Join(dir, "to-file"): "Lrwxrwxrwx 4321",
		outside:                       "drwx------ 0", filepath.Join(outside, "secret"): "-rw-r--r-- 0",
	} {
		if got := owned(t, path); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
}

func TestLocalVolumeIsGivenOnceToEachPodAndNotWhileAnotherUsesIt(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may give files away")
	}
	h, _ := newTestHost(t)
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	// stays is the group that it stays the one of, which is told once.
	ensure := func(uid types.UID, path string, group *int64, onMismatch bool, stays ...int64) {
		t.Helper()
		v := host.Volume{Name: "v", Local: &host.LocalVolume{Path: path, FSGroup: group, OnRootMismatch: onMismatch}}
		made, err := h.EnsureVolume(t.Context(), uid, v)
		if err != nil {
			t.Fatal(err)
		}
		var other []int64
		if made.OtherGroup != nil {
			other = []int64{*made.OtherGroup}
		}
		if made.Path != path || !slices.Equal(other, stays) {
			t.Errorf("pod %s: %q stays of %v, want %q of %v", uid, made.Path, other, path, stays)
		}
	}
	is := func(what, name, want string) {
		t.Helper()
		if got := owned(t, filepath.Join(dir, name)); got != want {
			t.Errorf("%s: %q is %q, want %q", what, name, got, want)
		}
	}
	remove := func(uid types.UID) {
		t.Helper()
		if err := h.RemovePod(t.Context(), uid, true); err != nil {
			t.Fatal(err)
		}
	}
	first, second := ptr.To[int64](4321), ptr.To[int64](8765)
	put(t, filepath.Join(dir, "old"), "x")
	ensure("a", dir, first, false)
	is("a pod", "old", "-rw-rw-r-- 4321")
	put(t, filepath.Join(dir, "new"), "x")
	is("what the pod made", "new", "-rw-r--r-- 4321")
	ensure("a", dir, first, false)
	is("the same pod", "new", "-rw-r--r-- 4321")
	ensure("b", link, second, false, 4321)
	is("another pod beside it", "old", "-rw-rw-r-- 4321")
	remove("a")
	ensure("b", link, second, false)
	is("that one when it is alone", "old", "-rw-rw-r-- 4321")
	remove("b")
	ensure("c", dir, first, true)
	is("a directory that is as it should be", "new", "-rw-r--r-- 4321")
	ensure("d", dir, nil, false)
	ensure("g", dir, first, false)
	remove("c")
	ensure("e", dir, second, false, 4321)
	is("beside a pod without a group", "old", "-rw-rw-r-- 4321")
	remove("d")
	remove("e")
	remove("g")
	ensure("f", dir, second, false)
	is("a pod that is alone", "new", "-rw-rw-r-- 8765")
}

// TestLocalVolumeThatWasNotGivenWholeIsGivenAgain, as after an end of the process in between.
func TestLocalVolumeThatWasNotGivenWholeIsGivenAgain(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may give files away")
	}
	h, _ := newTestHost(t)
	dir := t.TempDir()
	v := host.Volume{Name: "v", Local: &host.LocalVolume{Path: dir, FSGroup: ptr.To[int64](4321)}}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.EnsureVolume(cancelled, testUID, v); err == nil {
		t.Fatal("no error")
	}
	if got := owned(t, dir); strings.HasSuffix(got, "4321") {
		t.Fatalf("it was given: %s", got)
	}
	put(t, filepath.Join(h.rootDir, localVolumePath("torn", "v")), "{") // by a machine that went down
	ensureVolume(t, h, v)
	if got := owned(t, dir); !strings.HasSuffix(got, "4321") {
		t.Errorf("it is %s", got)
	}
}

// TestPathsThatWereJudgedLeadThroughNoLink, also if somebody puts one there afterwards.
func TestPathsThatWereJudgedLeadThroughNoLink(t *testing.T) {
	h, _ := newTestHost(t)
	dir, secret := t.TempDir(), t.TempDir()
	put(t, filepath.Join(secret, "sub/file"), "x")
	if err := os.Symlink(secret, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, v := range []host.Volume{
		{Local: &host.LocalVolume{Path: dir + "/link/sub", FSGroup: ptr.To[int64](4321)}},
		{Local: &host.LocalVolume{Path: dir + "/link"}},
		{HostPath: dir + "/link/new", HostPathType: hostPathDirectoryOrCreate},
		{HostPath: dir + "/link/new", HostPathType: hostPathFileOrCreate},
	} {
		v.Name, v.NoLinks = "v", true
		if made, err := h.EnsureVolume(t.Context(), testUID, v); err == nil {
			t.Errorf("%+v %+v: %s", v, v.Local, made.Path)
		}
	}
	part := host.SubPath{Volume: "v", HostPath: dir + "/link", NoLinks: true, Path: "sub", Container: "c"}
	if path, err := h.EnsureSubPath(t.Context(), testUID, part); err == nil {
		t.Errorf("part %s", path)
	}
	if entries, err := os.ReadDir(secret); err != nil || len(entries) != 1 {
		t.Errorf("behind the link is %v, %v", entries, err)
	}
	for kind, name := range map[string]string{hostPathDirectoryOrCreate: "a/b", hostPathFileOrCreate: "file"} {
		v := host.Volume{Name: "v", HostPath: filepath.Join(dir, name), HostPathType: kind, NoLinks: true}
		if path := ensureVolume(t, h, v); path != v.HostPath {
			t.Errorf("made at %s", path)
		}
		if _, err := os.Lstat(v.HostPath); err != nil {
			t.Error(err)
		}
	}
}

func TestLocalVolumeMustBeWhatItIsNamedAs(t *testing.T) {
	h, _ := newTestHost(t)
	dir := t.TempDir()
	put(t, filepath.Join(dir, "file"), "x")
	for text, local := range map[string]host.LocalVolume{
		"/missing\" does not exist":          {Path: dir + "/missing"},
		"it's a File: only directories":      {Path: dir + "/file"},
		"is not a block device, it's a Dire": {Path: dir, Block: true},
		"is not a block device, it's a Char": {Path: "/dev/null", Block: true},
	} {
		if _, err := h.EnsureVolume(t.Context(), testUID, host.Volume{Name: "v", Local: &local}); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: got %v, want %q", local, err, text)
		}
	}
	for _, v := range []host.Volume{
		{Name: "v", Local: &host.LocalVolume{Path: "relative"}}, {Name: "v", Local: &host.LocalVolume{Path: "/a/../b"}},
		{Name: "v", Local: &host.LocalVolume{Path: dir}, HostPath: "/x"}, {Name: "v", Local: &host.LocalVolume{Path: dir, FSGroup: ptr.To[int64](-1)}},
	} {
		if _, err := h.EnsureVolume(t.Context(), testUID, v); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%+v %+v: got %v", v, v.Local, err)
		}
	}
}

func TestHugePagesMustExistOnTheHost(t *testing.T) {
	system := t.TempDir()
	put(t, filepath.Join(system, "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"), "0\n")
	h, _ := newTestHost(t, func(o *Options) { o.SystemRoot = system })
	for _, size := range []int64{2 << 20, 1 << 30} {
		_, err := h.EnsureVolume(t.Context(), testUID, host.Volume{Name: "v", EmptyDir: true, HugePageBytes: size})
		if !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), fmt.Sprintf("no huge pages of %d KiB", size>>10)) {
			t.Errorf("%d: got %v", size, err)
		}
	}
}
