// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
)

// withUmask runs a test with a umask that takes everything from others.
func withUmask(t *testing.T) {
	t.Helper()
	old := unix.Umask(0o077)
	t.Cleanup(func() { unix.Umask(old) })
}

func TestEnsurePodMakesTheKubeletsDirectoriesWhateverTheUmask(t *testing.T) {
	h, _ := newTestHost(t)
	withUmask(t)
	for range 2 { // the same call again is right
		if err := h.EnsurePod(t.Context(), testPod, []string{"init", "main"}); err != nil {
			t.Fatal(err)
		}
	}
	pod := filepath.Join(h.rootDir, "pods", testUID)
	logs := filepath.Join(h.logsDir, "default_web_"+testUID)
	for path, want := range map[string]os.FileMode{
		pod:                              0o750,
		filepath.Join(pod, "volumes"):    0o750,
		filepath.Join(pod, "plugins"):    0o750,
		filepath.Join(pod, "containers"): 0o750,
		logs:                             0o755,
		filepath.Join(logs, "init"):      0o755,
		filepath.Join(logs, "main"):      0o755,
	} {
		if got := mode(t, path); got != want|fs.ModeDir {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}

func TestNamesThatCouldLeadElsewhereAreRefused(t *testing.T) {
	h, _ := newTestHost(t)
	ctx := t.Context()
	bad := []string{"", ".", "..", "../x", "a/b", "/etc", "a\x00b", "a b", strings.Repeat("a", 300)}
	for _, name := range bad {
		for what, err := range map[string]error{
			"uid":         h.EnsurePod(ctx, host.Pod{UID: types.UID(name), Namespace: "n", Name: "p"}, nil),
			"namespace":   h.EnsurePod(ctx, host.Pod{UID: testUID, Namespace: name, Name: "p"}, nil),
			"pod":         h.EnsurePod(ctx, host.Pod{UID: testUID, Namespace: "n", Name: name}, nil),
			"container":   h.EnsurePod(ctx, testPod, []string{name}),
			"removed uid": h.RemovePod(ctx, types.UID(name), true),
			"volume":      second(h.EnsureVolume(ctx, testUID, host.Volume{Name: name, EmptyDir: true})),
			"volume uid":  second(h.EnsureVolume(ctx, types.UID(name), host.Volume{Name: "v", EmptyDir: true})),
			"termination": second(h.EnsureTerminationLog(ctx, testUID, name, 0)),
			"hosts":       second(h.EnsureHostsFile(ctx, types.UID(name), nil)),
			"restart":     second(h.RestartCount(ctx, testPod, name)),
			"sandbox":     second(h.DialPod(ctx, name, 80)),
			"hook":        second(h.RunHook(ctx, host.HookRequest{PodUID: testUID, ContainerID: name, Kind: "preStop", Command: []string{"x"}, Timeout: 1})),
		} {
			if !errdefs.IsInvalidArgument(err) {
				t.Errorf("%s %q: %v", what, name, err)
			}
		}
	}
	if entries, err := os.ReadDir(filepath.Join(h.rootDir, podsDir)); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestSymbolicLinksDoNotLeadOutOfTheRootDirectory(t *testing.T) {
	h, _ := newTestHost(t)
	outside := t.TempDir()
	put(t, filepath.Join(outside, "keep"), "x")
	if err := os.Symlink(outside, filepath.Join(h.rootDir, "pods", testUID)); err != nil {
		t.Fatal(err)
	}
	if err := h.EnsurePod(t.Context(), testPod, nil); err == nil {
		t.Error("made directories through a link")
	}
	if _, err := h.EnsureVolume(t.Context(), testUID, host.Volume{Name: "v", EmptyDir: true}); err == nil {
		t.Error("made a volume through a link")
	}
	if _, err := h.EnsureHostsFile(t.Context(), testUID, []byte("x")); err == nil {
		t.Error("made a hosts file through a link")
	}
	if err := h.RemovePod(t.Context(), testUID, false); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) != 1 {
		t.Errorf("outside: %v, %v", entries, err)
	}
}

func TestEmptyDirIsOpenToEveryoneAndKeptAsThePodLeftIt(t *testing.T) {
	h, _ := newTestHost(t)
	withUmask(t)
	ensure := func() string {
		t.Helper()
		made, err := h.EnsureVolume(t.Context(), testUID, host.Volume{Name: "cache", EmptyDir: true})
		path := made.Path
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	path := ensure()
	if want := filepath.Join(h.rootDir, "pods", testUID, "volumes/kubernetes.io~empty-dir/cache"); path != want {
		t.Errorf("path %s, want %s", path, want)
	}
	if got := mode(t, path); got != fs.ModeDir|0o777 {
		t.Errorf("mode %v", got)
	}
	put(t, filepath.Join(path, "file"), "x")
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	ensure()
	if got := mode(t, path); got != fs.ModeDir|0o700 {
		t.Errorf("mode after the pod changed it: %v", got)
	}
	if _, err := os.Stat(filepath.Join(path, "file")); err != nil {
		t.Error(err)
	}
}

func TestEmptyDirLeftHalfMadeIsFinished(t *testing.T) {
	h, _ := newTestHost(t)
	plugin := filepath.Join(h.rootDir, "pods", testUID, "volumes/kubernetes.io~empty-dir")
	if err := os.MkdirAll(filepath.Join(plugin, ".cache"), 0o700); err != nil {
		t.Fatal(err)
	}
	made, err := h.EnsureVolume(t.Context(), testUID, host.Volume{Name: "cache", EmptyDir: true})
	path := made.Path
	if err != nil {
		t.Fatal(err)
	}
	if got := mode(t, path); got != fs.ModeDir|0o777 {
		t.Errorf("mode %v", got)
	}
}

func TestVolumeWithoutOrWithTwoSourcesIsRefused(t *testing.T) {
	h, _ := newTestHost(t)
	for _, volume := range []host.Volume{{Name: "v"}, {Name: "v", EmptyDir: true, HostPath: "/tmp"}} {
		if _, err := h.EnsureVolume(t.Context(), testUID, volume); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%+v: %v", volume, err)
		}
	}
}

func TestHostPathTypes(t *testing.T) {
	dir := t.TempDir()
	file, folder, socket := filepath.Join(dir, "file"), filepath.Join(dir, "folder"), filepath.Join(dir, "socket")
	put(t, file, "x")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := os.Symlink(folder, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing")
	for _, test := range []struct {
		path, kind string
		want       string // part of the error, "" if there is none
	}{
		{missing, "", ""},
		{folder, "Directory", ""},
		{filepath.Join(dir, "link"), "Directory", ""},
		{file, "Directory", "hostPath type check failed: " + file + " is not a directory, it's a File"},
		{missing, "Directory", "hostPath type check failed, " + missing + " is not a directory, unable to determine its type"},
		{folder, "DirectoryOrCreate", ""},
		{file, "DirectoryOrCreate", "is not a directory, it's a File"},
		{file, "File", ""},
		{folder, "File", "is not a file, it's a Directory"},
		{missing, "File", "unable to determine its type"},
		{file, "FileOrCreate", ""},
		{folder, "FileOrCreate", "is not a file, it's a Directory"},
		{filepath.Join(missing, "file"), "FileOrCreate", "making hostPath file"},
		{socket, "Socket", ""},
		{file, "Socket", "is not a socket file, it's a File"},
		{"/dev/null", "CharDevice", ""},
		{file, "CharDevice", "is not a character device, it's a File"},
		{"/dev/null", "BlockDevice", "is not a block device, it's a CharDevice"},
	} {
		err := ensureHostPath(test.path, test.kind, false)
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s %q: %v", test.path, test.kind, err)
		case test.want != "" && (!errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s %q: %v, want %q", test.path, test.kind, err, test.want)
		}
	}
	for _, test := range []struct{ path, kind string }{{"relative", ""}, {"", ""}, {"/a/../b", ""}, {folder, "Folder"}} {
		if err := ensureHostPath(test.path, test.kind, false); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%q %q: %v", test.path, test.kind, err)
		}
	}
}

func TestHostPathIsMadeWhereTheTypeSaysSo(t *testing.T) {
	dir := t.TempDir()
	deep := filepath.Join(dir, "a/b/c")
	if err := ensureHostPath(deep, "DirectoryOrCreate", false); err != nil {
		t.Fatal(err)
	}
	if got := mode(t, deep); got != fs.ModeDir|0o755 {
		t.Errorf("directory: %v", got)
	}
	file := filepath.Join(deep, "file")
	if err := ensureHostPath(file, "FileOrCreate", false); err != nil {
		t.Fatal(err)
	}
	if got := mode(t, file); got != 0o644 {
		t.Errorf("file: %v", got)
	}
}

func TestTerminationLogIsOnePerRestartAndKeepsWhatIsInIt(t *testing.T) {
	h, _ := newTestHost(t)
	withUmask(t)
	ensure := func(restart int32) string {
		t.Helper()
		path, err := h.EnsureTerminationLog(t.Context(), testUID, "main", restart)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	first := ensure(0)
	if !strings.HasPrefix(first, filepath.Join(h.rootDir, "pods", testUID, "containers/main")+"/") {
		t.Errorf("path %s", first)
	}
	if got := mode(t, first); got != 0o666 {
		t.Errorf("mode %v", got)
	}
	put(t, first, "why")
	if again := ensure(0); again != first {
		t.Errorf("another file for the same restart: %s and %s", first, again)
	}
	if text, err := os.ReadFile(first); err != nil || string(text) != "why" {
		t.Errorf("content %q, %v", text, err)
	}
	if next := ensure(1); next == first {
		t.Error("the same file for another restart")
	}
	if _, err := h.EnsureTerminationLog(t.Context(), testUID, "main", -1); !errdefs.IsInvalidArgument(err) {
		t.Errorf("negative restart count: %v", err)
	}
}

// A second node of the same host sees none of the first one's sandboxes, but the directories of its pods.
func TestRemovePodRefusesWhileThePodRuns(t *testing.T) {
	h, runtime := newTestHost(t)
	dir := filepath.Join(h.rootDir, "pods", testUID)
	labels := map[string]string{cri.LabelPodUID: testUID, cri.LabelNode: "other"}
	sandbox := &runtimeapi.PodSandbox{Id: "s", Labels: labels}
	container := &runtimeapi.Container{Id: "c", Labels: labels, State: runtimeapi.ContainerState_CONTAINER_RUNNING}
	for name, tc := range map[string]struct {
		set  func(*fakeRuntime)
		want string
	}{
		"sandbox":   {func(r *fakeRuntime) { r.sandboxes = []*runtimeapi.PodSandbox{sandbox} }, `its sandbox s runs, of node "other"`},
		"container": {func(r *fakeRuntime) { r.sandboxes, r.containers = nil, []*runtimeapi.Container{container} }, `its container c runs, of node "other"`},
		"unknown":   {func(r *fakeRuntime) { r.containers, r.err = nil, errdefs.ErrUnavailable }, "unavailable"},
	} {
		if err := h.EnsurePod(t.Context(), testPod, []string{"main"}); err != nil {
			t.Fatal(err)
		}
		runtime.set(tc.set)
		if err := h.RemovePod(t.Context(), testUID, true); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("%s: the directory of the pod is gone: %v", name, err)
		}
		runtime.set(func(r *fakeRuntime) { r.sandboxes, r.containers, r.err = nil, nil, nil })
	}
	sandbox.State, container.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY, runtimeapi.ContainerState_CONTAINER_EXITED
	runtime.set(func(r *fakeRuntime) {
		r.sandboxes, r.containers = []*runtimeapi.PodSandbox{sandbox}, []*runtimeapi.Container{container}
	})
	if err := h.RemovePod(t.Context(), testUID, true); err != nil {
		t.Errorf("a pod that has ended: %v", err)
	}
}

func TestRemovePodLeavesOthersAlone(t *testing.T) {
	h, _ := newTestHost(t)
	other := host.Pod{UID: "other", Namespace: "default", Name: "web"}
	for _, pod := range []host.Pod{testPod, other} {
		if err := h.EnsurePod(t.Context(), pod, []string{"main"}); err != nil {
			t.Fatal(err)
		}
	}
	put(t, filepath.Join(h.logsDir, podLogDir(testPod), "main", "0.log"), "x")
	for range 2 { // what is gone is removed already
		if err := h.RemovePod(t.Context(), testUID, false); err != nil {
			t.Fatal(err)
		}
	}
	uids, err := h.ListPods(t.Context())
	if diff := cmp.Diff([]types.UID{"other"}, uids); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if _, err := os.Stat(filepath.Join(h.logsDir, podLogDir(testPod))); err != nil {
		t.Errorf("logs are gone although they should stay: %v", err)
	}
	if err := h.RemovePod(t.Context(), testUID, true); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(h.logsDir, podLogDir(testPod))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("logs are there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(h.logsDir, podLogDir(other))); err != nil {
		t.Error(err)
	}
}

// The runtime knows nothing of a pod that never had a container, so nobody would ask for its logs to be removed later.
func TestRemovePodLeavesNoLogDirectoryOfAPodThatNeverLogged(t *testing.T) {
	h, _ := newTestHost(t)
	dir := filepath.Join(h.logsDir, podLogDir(testPod))
	for _, logged := range []bool{false, true} {
		if err := h.EnsurePod(t.Context(), testPod, []string{"a", "b"}); err != nil {
			t.Fatal(err)
		}
		if logged {
			put(t, filepath.Join(dir, "b", "0.log"), "x")
		}
		if err := h.RemovePod(t.Context(), testUID, false); err != nil {
			t.Fatal(err)
		}
		_, err := os.Stat(filepath.Join(dir, "b", "0.log"))
		if logged && err != nil {
			t.Errorf("the log is gone: %v", err)
		}
		if _, err := os.Stat(dir); !logged && !os.IsNotExist(err) {
			t.Errorf("the log directory is still there: %v", err)
		}
	}
}

func TestRemovePodDoesNotFollowLinksOutOfVolumes(t *testing.T) {
	h, _ := newTestHost(t)
	made, err := h.EnsureVolume(t.Context(), testUID, host.Volume{Name: "v", EmptyDir: true})
	path := made.Path
	if err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	put(t, filepath.Join(outside, "keep"), "x")
	if err := os.Symlink(outside, filepath.Join(path, "out")); err != nil {
		t.Fatal(err)
	}
	if err := h.RemovePod(t.Context(), testUID, false); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(outside, "keep")); err != nil {
		t.Error(err)
	}
}

func TestRemovePodRefusesWhileSomethingIsMounted(t *testing.T) {
	system := t.TempDir()
	h, _ := newTestHost(t, func(o *Options) { o.SystemRoot = system })
	if err := h.EnsurePod(t.Context(), testPod, nil); err != nil {
		t.Fatal(err)
	}
	mountinfo := func(point string) {
		put(t, filepath.Join(system, "proc/self/mountinfo"),
			"21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n36 21 0:31 / "+point+" rw,nosuid shared:9 - tmpfs tmpfs rw\n")
	}
	inside := filepath.Join(h.realRoot, "pods", testUID, `volumes/kubernetes.io~secret/a\040b`)
	mountinfo(inside)
	err := h.RemovePod(t.Context(), testUID, true)
	if !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), "kubernetes.io~secret/a b") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(h.rootDir, "pods", testUID)); err != nil {
		t.Errorf("removed nevertheless: %v", err)
	}
	mountinfo(filepath.Join(h.realRoot, "pods", testUID+"x")) // of another pod, whose UID begins the same
	if err := h.RemovePod(t.Context(), testUID, true); err != nil {
		t.Errorf("a mount of another pod is in the way: %v", err)
	}
}

func TestRemovePodRefusesWhenMountsCannotBeRead(t *testing.T) {
	h, _ := newTestHost(t, func(o *Options) { o.SystemRoot = t.TempDir() })
	if err := h.EnsurePod(t.Context(), testPod, nil); err != nil {
		t.Fatal(err)
	}
	if err := h.RemovePod(t.Context(), testUID, false); err == nil {
		t.Error("removed without knowing what is mounted")
	}
}

func FuzzMountsBelow(f *testing.F) {
	f.Add("36 21 0:31 / /x rw shared:9 - tmpfs tmpfs rw\n")
	f.Add("36 21 0:31 / /x\\040 rw - tmpfs\n")
	f.Add("\n")
	system := f.TempDir()
	logs, root := f.TempDir(), f.TempDir()
	h, err := New(Options{RootDir: root, PodLogsDir: logs, Runtime: newFakeRuntime(), SystemRoot: system})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = h.Close(f.Context()) })
	path := filepath.Join(system, "proc/self/mountinfo")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		mounts, err := h.mountsBelow("pods/x")
		for _, m := range mounts {
			point := m.Mountpoint
			if err != nil || !strings.HasPrefix(point+"/", h.realRoot+"/pods/x/") {
				t.Errorf("%q is not below, %v", point, err)
			}
		}
	})
}

// TestPodWhoseLogsCannotBeRemovedIsNotForgotten: what is interrupted between its logs and its directory is done again.
func TestPodWhoseLogsCannotBeRemovedIsNotForgotten(t *testing.T) {
	h := newMountingHost(t)
	if err := h.EnsurePod(t.Context(), testPod, []string{"main"}); err != nil {
		t.Fatal(err)
	}
	busy := filepath.Join(h.logsDir, "default_web_"+testUID, "main")
	if err := unix.Mount(tmpfs, busy, tmpfs, 0, "size=4096"); err != nil {
		t.Fatal(err)
	}
	err := h.RemovePod(t.Context(), testUID, true)
	if unmount := unix.Unmount(busy, 0); unmount != nil {
		t.Fatal(unmount)
	}
	if uids, listing := h.ListPods(t.Context()); err == nil || listing != nil || len(uids) != 1 {
		t.Errorf("removed: %v; listed %v, %v", err, uids, listing)
	}
	if err := h.RemovePod(t.Context(), testUID, true); err != nil {
		t.Fatal(err)
	}
	if uids, err := h.ListPods(t.Context()); err != nil || len(uids) != 0 {
		t.Errorf("listed after its removal: %v, %v", uids, err)
	}
}
