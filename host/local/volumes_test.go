// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/host"
)

// newMountingHost returns a host that may mount, whose mounts are gone before its directories are.
func newMountingHost(t *testing.T) *Host {
	t.Helper()
	probe := t.TempDir()
	if err := unix.Mount(tmpfs, probe, tmpfs, 0, "size=4096"); err != nil {
		t.Skipf("this process may not mount: %v", err)
	}
	if err := unix.Unmount(probe, 0); err != nil {
		t.Fatal(err)
	}
	h, _ := newTestHost(t)
	t.Cleanup(func() {
		if err := h.RemovePod(t.Context(), testUID, true); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Logf("removing the test's pod: %v", err)
		}
	})
	return h
}

func ensureVolume(t *testing.T, h *Host, v host.Volume) string {
	t.Helper()
	made, err := h.EnsureVolume(t.Context(), testUID, v)
	if err != nil {
		t.Fatal(err)
	}
	return made.Path
}

func writeFiles(t *testing.T, h *Host, set host.FileSet) string {
	t.Helper()
	path, err := h.WriteFiles(t.Context(), testUID, set)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// describe says what a path is: mode, group and file system.
func describe(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatal("no stat")
	}
	var sfs unix.Statfs_t
	if err := unix.Statfs(path, &sfs); err != nil {
		t.Fatal(err)
	}
	where := "disk"
	if sfs.Type == unix.TMPFS_MAGIC {
		where = fmt.Sprintf("memory of %d KiB", sfs.Blocks*uint64(sfs.Bsize)>>10)
	}
	return fmt.Sprintf("%v group %d on %s", info.Mode(), st.Gid, where)
}

func secretFiles(text string) host.FileSet {
	return host.FileSet{
		Volume: "s", Kind: host.SecretVolume, SizeBytes: 1 << 20,
		Files: []host.File{{Path: "key", Data: []byte(text), Mode: 0o400}},
	}
}

func TestVolumesAreWhereAndHowTheyWereAskedFor(t *testing.T) {
	h := newMountingHost(t)
	withUmask(t)
	group := ptr.To[int64](4321)
	for want, path := range map[string]string{
		"drwxrwxrwx group 0 on disk":                 ensureVolume(t, h, host.Volume{Name: "a", EmptyDir: true}),
		"dgrwxrwxrwx group 4321 on disk":             ensureVolume(t, h, host.Volume{Name: "b", EmptyDir: true, FSGroup: group}),
		"drwx------ group 0 on disk":                 ensureVolume(t, h, host.Volume{Name: "c", EmptyDir: true, Mode: ptr.To[uint32](0o700)}),
		"dtrwxrwxrwx group 0 on memory of 64 KiB":    ensureVolume(t, h, host.Volume{Name: "d", EmptyDir: true, Memory: true, SizeBytes: 64 << 10}),
		"dgtrwxrwxrwx group 4321 on memory of 8 KiB": ensureVolume(t, h, host.Volume{Name: "e", EmptyDir: true, Memory: true, SizeBytes: 8 << 10, FSGroup: group}),
		"dtrwxrwxrwx group 0 on memory of 1024 KiB":  writeFiles(t, h, secretFiles("x")),
		"dgrwxrwxrwx group 77 on disk": writeFiles(t, h, host.FileSet{
			Volume: "f", Kind: host.ConfigMapVolume, FSGroup: ptr.To[int64](77)}),
		"dtrwxrwxrwx group 0 on memory of 4 KiB": writeFiles(t, h, host.FileSet{Volume: "g", Kind: host.ProjectedVolume, SizeBytes: 4096}),
		"dtrwxrwxrwx group 0 on memory of 8 KiB": writeFiles(t, h, host.FileSet{Volume: "h", Kind: host.DownwardAPIVolume, SizeBytes: 8192}),
	} {
		if strings.HasSuffix(want, "on disk") && !onDisk(t, h.rootDir) {
			want = strings.TrimSuffix(want, "disk")
		}
		if got := describe(t, path); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// onDisk says whether the tests' own directories are not in memory, where nothing could be told apart.
func onDisk(t *testing.T, path string) bool {
	return strings.HasSuffix(describe(t, path), "on disk")
}

func TestMemoryIsMountedOnceAndKeepsItsContent(t *testing.T) {
	h := newMountingHost(t)
	memory := host.Volume{Name: "m", EmptyDir: true, Memory: true, SizeBytes: 1 << 16}
	path := ensureVolume(t, h, memory)
	put(t, filepath.Join(path, "file"), "x")
	ensureVolume(t, h, memory)
	mounts, err := h.mountsBelow(podDir(testUID))
	if err != nil || len(mounts) != 1 {
		t.Errorf("%d mounts, %v", len(mounts), err)
	}
	if err := os.WriteFile(filepath.Join(path, "big"), make([]byte, 1<<17), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a file larger than the volume: %v", err)
	}
	if _, err := os.Stat(filepath.Join(path, "file")); err != nil {
		t.Error(err)
	}
}

func TestRemovePodUnmountsItsOwnMountsAlsoBusyOnesAndAfterARestart(t *testing.T) {
	h := newMountingHost(t)
	if err := h.EnsurePod(t.Context(), testPod, nil); err != nil {
		t.Fatal(err)
	}
	path := ensureVolume(t, h, host.Volume{Name: "m", EmptyDir: true, Memory: true})
	writeFiles(t, h, secretFiles("x"))
	if _, err := h.EnsureSubPath(t.Context(), testUID, host.SubPath{
		Volume: "m", Kind: host.EmptyDirVolume, Path: "sub", Container: "c", Mount: 0}); err != nil {
		t.Fatal(err)
	}
	busy, err := os.Create(filepath.Join(path, "busy"))
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	closeHost(t, h)
	again, err := New(Options{RootDir: h.rootDir, PodLogsDir: h.logsDir, Runtime: newFakeRuntime(), Cgroups: newFakeCgroups().open})
	if err != nil {
		t.Fatal(err)
	}
	defer closeHost(t, again)
	if err := again.RemovePod(t.Context(), testUID, true); err != nil {
		t.Fatal(err)
	}
	mounts, err := again.mountsBelow(podsDir)
	if err != nil || len(mounts) > 0 {
		t.Errorf("still mounted: %v, %v", mounts, err)
	}
	if _, err := os.Stat(filepath.Join(h.rootDir, podDir(testUID))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the pod's directory: %v", err)
	}
	if _, err := busy.WriteString("still works"); err != nil {
		t.Errorf("whoever used the volume: %v", err)
	}
}

func TestRemovePodTouchesNothingWhileAForeignMountIsThere(t *testing.T) {
	h := newMountingHost(t)
	path := ensureVolume(t, h, host.Volume{Name: "m", EmptyDir: true, Memory: true})
	foreign := filepath.Join(path, "foreign")
	if err := os.Mkdir(foreign, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(tmpfs, foreign, tmpfs, 0, "size=4096"); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(foreign, "keep"), "x")
	err := h.RemovePod(t.Context(), testUID, true)
	_, kept := os.Stat(filepath.Join(foreign, "keep"))
	if unmounting := unix.Unmount(foreign, 0); unmounting != nil {
		t.Fatal(unmounting)
	}
	if !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), foreign) || kept != nil {
		t.Errorf("got %v; the foreign file: %v", err, kept)
	}
}

func TestWriteFilesReplacesContentAndMakesMountPoints(t *testing.T) {
	h := newMountingHost(t)
	set := secretFiles("one")
	set.MountPoints = []string{"nested/dir"}
	path := writeFiles(t, h, set)
	if want := filepath.Join(h.rootDir, "pods", testUID, "volumes/kubernetes.io~secret/s"); path != want {
		t.Errorf("path %s, want %s", path, want)
	}
	if got := mode(t, filepath.Join(path, "nested/dir")); got != fs.ModeDir|0o755 {
		t.Errorf("mount point %v", got)
	}
	set.Files[0].Data = []byte("two")
	writeFiles(t, h, set)
	got, err := os.ReadFile(filepath.Join(path, "key"))
	if err != nil || string(got) != "two" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestFileSetsThatAreWrongAreRefused(t *testing.T) {
	h, _ := newTestHost(t)
	for name, change := range map[string]func(*host.FileSet){
		"kind":            func(s *host.FileSet) { s.Kind = host.EmptyDirVolume },
		"no kind":         func(s *host.FileSet) { s.Kind = "" },
		"kind like path":  func(s *host.FileSet) { s.Kind = "../../x" },
		"volume":          func(s *host.FileSet) { s.Volume = "../x" },
		"size":            func(s *host.FileSet) { s.SizeBytes = -1 },
		"file":            func(s *host.FileSet) { s.Files[0].Path = "../x" },
		"absolute":        func(s *host.FileSet) { s.Files[0].Path = "/etc/passwd" },
		"mode":            func(s *host.FileSet) { s.Files[0].Mode = 0o4755 },
		"user":            func(s *host.FileSet) { s.Files[0].User = ptr.To[int64](-2) },
		"group":           func(s *host.FileSet) { s.FSGroup = ptr.To[int64](1 << 31) },
		"mount point":     func(s *host.FileSet) { s.MountPoints = []string{"../../x"} },
		"mount point ..x": func(s *host.FileSet) { s.MountPoints = []string{"..data"} },
		"too many files":  func(s *host.FileSet) { s.Files = make([]host.File, host.MaxFileSetFiles+1) },
		"too many bytes":  func(s *host.FileSet) { s.Files[0].Data = make([]byte, host.MaxFileSetBytes+1) },
	} {
		set := secretFiles("x")
		change(&set)
		if _, err := h.WriteFiles(t.Context(), testUID, set); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if entries, err := os.ReadDir(filepath.Join(h.rootDir, podsDir)); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// TestHugePagesAreMounted needs a machine that has reserved some.
func TestHugePagesAreMounted(t *testing.T) {
	h := newMountingHost(t)
	if err := h.checkHugePages(2 << 20); err != nil {
		t.Skip(err)
	}
	path := ensureVolume(t, h, host.Volume{Name: "h", EmptyDir: true, HugePageBytes: 2 << 20, SizeBytes: 4 << 20, FSGroup: ptr.To[int64](4321)})
	ensureVolume(t, h, host.Volume{Name: "h", EmptyDir: true, HugePageBytes: 2 << 20}) // once
	var sfs unix.Statfs_t
	if err := unix.Statfs(path, &sfs); err != nil {
		t.Fatal(err)
	}
	if sfs.Type != unix.HUGETLBFS_MAGIC || sfs.Bsize != 2<<20 || sfs.Blocks != 2 {
		t.Errorf("got a file system of type %x with %d blocks of %d bytes", sfs.Type, sfs.Blocks, sfs.Bsize)
	}
	if got := describe(t, path); !strings.HasPrefix(got, "dgrwxrwxrwx group 4321") {
		t.Errorf("the directory is %s", got)
	}
	if err := h.RemovePod(t.Context(), testUID, true); err != nil {
		t.Fatal(err)
	}
	if mounts, err := h.mountsBelow("."); err != nil || len(mounts) > 0 {
		t.Errorf("after the pod: %v, %v", mounts, err)
	}
}
