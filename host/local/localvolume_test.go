// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/containerd/errdefs"
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
	put(t, filepath.Join(dir, "new"), "x")
	ensureVolume(t, h, volume)
	if got := owned(t, filepath.Join(dir, "new")); !strings.HasPrefix(got, "-rw-r--r--") {
		t.Errorf("a new file is %q although the directory is as it should be", got)
	}
	volume.Local.OnRootMismatch = false
	ensureVolume(t, h, volume)
	if got := owned(t, filepath.Join(dir, "new")); got != "-rw-rw-r-- 4321" {
		t.Errorf("a new file is %q although everything is to be looked at", got)
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
