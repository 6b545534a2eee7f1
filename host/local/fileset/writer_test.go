// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package fileset

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// testDir returns an open directory and its path.
func testDir(t *testing.T) (*os.Root, string) {
	t.Helper()
	path := t.TempDir()
	dir, err := os.OpenRoot(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	return dir, path
}

// filesOf makes files 0644 of paths and contents.
func filesOf(contents map[string]string) []File {
	var out []File
	for name, text := range contents {
		out = append(out, File{Path: name, Data: []byte(text), Mode: 0o644, UID: Keep})
	}
	return out
}

// seen is what a reader of the directory finds, by path through the visible links.
func seen(t *testing.T, path string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") {
			continue
		}
		top, err := filepath.EvalSymlinks(filepath.Join(path, e.Name()))
		if err != nil {
			out[e.Name()] = "dangling"
			continue
		}
		err = filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(name)
			out[filepath.Join(e.Name(), strings.TrimPrefix(name, top))] = string(data)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// own are the names of the writer's own in the directory.
func own(t *testing.T, path string) []string {
	t.Helper()
	entries, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") {
			out = append(out, e.Name())
		}
	}
	return out
}

func TestWriteMakesTheLayoutThatProgramsKnow(t *testing.T) {
	dir, path := testDir(t)
	w := New(clocktesting.NewFakeClock(time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)))
	files := filesOf(map[string]string{"a": "1", "deep/er/b": "2", "deep/c": "3", "odd name;$(x)": "4", ".hidden": "5"})
	if err := w.Write(dir, files, Keep); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"a": "1", "deep/er/b": "2", "deep/c": "3", "odd name;$(x)": "4", ".hidden": "5"}
	if diff := cmp.Diff(want, seen(t, path)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	version, err := os.Readlink(filepath.Join(path, "..data"))
	if err != nil || !strings.HasPrefix(version, "..2026_01_02_15_04_05.") {
		t.Errorf("version %q, %v", version, err)
	}
	for link, target := range map[string]string{"a": "..data/a", "deep": "..data/deep"} {
		if got, err := os.Readlink(filepath.Join(path, link)); got != target || err != nil {
			t.Errorf("%s leads to %q, %v", link, got, err)
		}
	}
	if got := own(t, path); len(got) != 2 {
		t.Errorf("own names %q", got)
	}
}

func TestWriteKeepsAVersionThatIsAsWanted(t *testing.T) {
	dir, path := testDir(t)
	w := New(clock.RealClock{})
	version := func(files []File) string {
		t.Helper()
		if err := w.Write(dir, files, Keep); err != nil {
			t.Fatal(err)
		}
		got, err := os.Readlink(filepath.Join(path, "..data"))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := version(filesOf(map[string]string{"a": "1", "b/c": "2"}))
	if again := version(filesOf(map[string]string{"b/c": "2", "a": "1"})); again != first {
		t.Error("the same files were written again")
	}
	for name, files := range map[string][]File{
		"content":  filesOf(map[string]string{"a": "2", "b/c": "2"}),
		"one more": filesOf(map[string]string{"a": "1", "b/c": "2", "d": ""}),
		"one less": filesOf(map[string]string{"a": "1"}),
		"mode":     {{Path: "a", Data: []byte("1"), Mode: 0o600, UID: Keep}},
	} {
		before := version(filesOf(map[string]string{"a": "1", "b/c": "2"}))
		if after := version(files); after == before {
			t.Errorf("%s: a change was not written", name)
		}
	}
	if got := own(t, path); len(got) != 2 {
		t.Errorf("old versions are left: %q", got)
	}
}

func TestWriteRepairsWhatIsThere(t *testing.T) {
	dir, path := testDir(t)
	w := New(clock.RealClock{})
	files := filesOf(map[string]string{"a": "1", "b": "2"})
	if err := w.Write(dir, files, Keep); err != nil {
		t.Fatal(err)
	}
	version, err := os.Readlink(filepath.Join(path, "..data"))
	if err != nil {
		t.Fatal(err)
	}
	for name, harm := range map[string]func() error{
		"a file of the version is gone":    func() error { return os.Remove(filepath.Join(path, version, "a")) },
		"a visible link is gone":           func() error { return os.Remove(filepath.Join(path, "a")) },
		"a version is gone":                func() error { return os.RemoveAll(filepath.Join(path, version)) },
		"..data is gone":                   func() error { return os.Remove(filepath.Join(path, "..data")) },
		"a visible link leads elsewhere":   func() error { return relink(filepath.Join(path, "a"), "..data/b") },
		"a link to a file that is no more": func() error { return os.Symlink("..data/zz", filepath.Join(path, "zz")) },
	} {
		if err := harm(); err != nil {
			t.Fatal(err)
		}
		if err := w.Write(dir, files, Keep); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(map[string]string{"a": "1", "b": "2"}, seen(t, path)); diff != "" {
			t.Errorf("%s: files (-want +got):\n%s", name, diff)
		}
		if version, err = os.Readlink(filepath.Join(path, "..data")); err != nil {
			t.Fatal(err)
		}
	}
}

func relink(name, target string) error { return errors.Join(os.Remove(name), os.Symlink(target, name)) }

func TestWriteLeavesForeignEntriesAlone(t *testing.T) {
	dir, path := testDir(t)
	w := New(clock.RealClock{})
	if err := os.MkdirAll(filepath.Join(path, "mountpoint"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(path, "link")); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(dir, filesOf(map[string]string{"a": "1"}), Keep); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mountpoint", "link"} {
		if _, err := os.Lstat(filepath.Join(path, name)); err != nil {
			t.Error(err)
		}
	}
	if err := w.Write(dir, filesOf(map[string]string{"mountpoint": "1"}), Keep); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file in place of a directory: %v", err)
	}
}

// errCrash ends a write as the end of the process would.
var errCrash = errors.New("crash")

// TestACrashAtAnyMomentLeavesWholeContentAndIsRepaired stops an update between every two changes of the directory.
func TestACrashAtAnyMomentLeavesWholeContentAndIsRepaired(t *testing.T) {
	before := map[string]string{"a": "old", "b": "old", "gone/x": "old"}
	after := map[string]string{"a": "new", "b": "new", "came/y": "new"}
	common := []string{"a", "b"}
	for stop := 0; ; stop++ {
		dir, path := testDir(t)
		w := New(clock.RealClock{})
		if err := w.Write(dir, filesOf(before), Keep); err != nil {
			t.Fatal(err)
		}
		steps, at := 0, ""
		w.step = func(name string) error {
			if steps++; steps > stop {
				at = name
				return errCrash
			}
			return nil
		}
		err := w.Write(dir, filesOf(after), Keep)
		if err == nil {
			if stop < 10 {
				t.Errorf("an update has %d steps only", stop)
			}
			return
		}
		if !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		found := seen(t, path)
		for _, name := range common {
			if found[name] != found["a"] || found[name] != "old" && found[name] != "new" {
				t.Errorf("stopped before %q: torn content %v", at, found)
			}
		}
		for _, next := range []map[string]string{after, before} {
			if err := New(clock.RealClock{}).Write(dir, filesOf(next), Keep); err != nil {
				t.Errorf("stopped before %q: writing again: %v", at, err)
			}
			if diff := cmp.Diff(next, seen(t, path)); diff != "" {
				t.Errorf("stopped before %q, then written again (-want +got):\n%s", at, diff)
			}
			if left := own(t, path); len(left) != 2 {
				t.Errorf("stopped before %q, then written again: left are %q", at, left)
			}
		}
	}
}

// TestAReaderNeverSeesATornOrMissingFile reads all files of one opened version while they are updated.
func TestAReaderNeverSeesATornOrMissingFile(t *testing.T) {
	dir, path := testDir(t)
	w := New(clock.RealClock{})
	const updates = 200
	names := []string{"a", "b", "dir/c"}
	write := func(n int) error {
		text := strings.Repeat(fmt.Sprint(n, " "), 500)
		return w.Write(dir, filesOf(map[string]string{"a": text, "b": text, "dir/c": text}), Keep)
	}
	if err := write(0); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	readers.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			for _, name := range names {
				data, err := os.ReadFile(filepath.Join(path, name))
				fields := bytes.Fields(data)
				if err != nil || len(fields) != 500 || !bytes.Equal(fields[0], fields[499]) {
					// A path is looked up in several steps; the version may go between two of them, as with a kubelet.
					if errors.Is(err, fs.ErrNotExist) {
						if _, err = os.ReadFile(filepath.Join(path, name)); err == nil {
							continue
						}
					}
					t.Errorf("%s: %d fields, %v", name, len(fields), err)
					return
				}
			}
		}
	})
	for n := 1; n <= updates; n++ {
		if err := write(n); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	readers.Wait()
}

func TestOwnersAndModesAreAsAsked(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	dir, path := testDir(t)
	w := New(clock.RealClock{})
	files := []File{{Path: "a", Mode: 0o400, UID: 12}, {Path: "d/b", Mode: 0o755, UID: Keep}}
	for range 2 {
		if err := w.Write(dir, files, 34); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"..data/a":   "-r--r----- 12:34",
		"..data/d":   "dgrwxr-xr-x 0:34",
		"..data/d/b": "-rwxr-xr-x 0:34",
		"..data/.":   "dgrwxr-xr-x 0:34",
	} {
		info, err := os.Stat(filepath.Join(path, name))
		if err != nil {
			t.Fatal(err)
		}
		uid, gid := owner(info)
		if got := fmt.Sprintf("%v %d:%d", info.Mode(), uid, gid); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	info, err := os.Lstat(filepath.Join(path, "a"))
	if err != nil {
		t.Fatal(err)
	}
	if _, gid := owner(info); gid != 34 {
		t.Errorf("a link belongs to group %d", gid)
	}
}

func TestAMebibyteInManyFilesIsByteEqual(t *testing.T) {
	dir, path := testDir(t)
	want := map[string]string{}
	for i := range 200 {
		want[fmt.Sprintf("key-%d._X", i)] = strings.Repeat(string([]byte{byte(i), 0, 0xff, '\n'}), (1<<20)/200/4)
	}
	if err := New(clock.RealClock{}).Write(dir, filesOf(want), Keep); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, seen(t, path)); diff != "" {
		t.Error("content differs")
	}
}

func TestHostilePathsAreRefusedAndChangeNothing(t *testing.T) {
	for _, names := range [][]string{
		{""}, {"."}, {"./"}, {".."}, {"../x"}, {"a/../../x"}, {"a/../b"}, {"/etc/passwd"}, {"..data"}, {"..2026/x"}, {"./..data"},
		{"a\x00b"}, {strings.Repeat("x", 256)}, {strings.Repeat("x/", 2049)}, {"a", "a"}, {"a", "./a"}, {"a", "a/b"}, {"a/b/c", "a/b"},
	} {
		dir, path := testDir(t)
		var files []File
		for _, name := range names {
			files = append(files, File{Path: name, Mode: 0o644, UID: Keep})
		}
		if err := New(clock.RealClock{}).Write(dir, files, Keep); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%q: %v", names, err)
		}
		if entries, err := os.ReadDir(path); len(entries) > 0 || err != nil {
			t.Errorf("%q: left behind %v, %v", names, entries, err)
		}
	}
}

// FuzzWrite writes a file of any name and looks for anything outside the directory.
func FuzzWrite(f *testing.F) {
	for _, name := range []string{"a", "a/b", "../x", "..", "/x", "a//b", "a/./b", "..data/x", " ", "\xff", "a/"} {
		f.Add(name, []byte("x"))
	}
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		outer := t.TempDir()
		path := filepath.Join(outer, "volume")
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		dir, err := os.OpenRoot(path)
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		refused := Check(name)
		err = New(clock.RealClock{}).Write(dir, []File{{Path: name, Data: data, Mode: 0o644, UID: Keep}}, Keep)
		if (refused != nil) != (err != nil) {
			t.Fatalf("Check says %v, Write says %v", refused, err)
		}
		if err == nil {
			got, err := os.ReadFile(filepath.Join(path, name))
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("read back %q, %v", got, err)
			}
		}
		if entries, err := os.ReadDir(outer); len(entries) != 1 || err != nil {
			t.Errorf("outside: %v, %v", entries, err)
		}
	})
}
