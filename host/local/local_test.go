// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"go.uber.org/goleak"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/host"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testUID       = "0a1b2c3d-0000-4000-8000-000000000001"
	testContainer = "c0ffee"
)

var testPod = host.Pod{UID: testUID, Namespace: "default", Name: "web"}

// fakeRuntime answers what a test wants. Its containers run unless the test says otherwise.
type fakeRuntime struct {
	mu        sync.Mutex
	state     runtimeapi.ContainerState
	err       error // of every call but ExecSync
	sandbox   *runtimeapi.PodSandboxStatus
	driver    runtimeapi.CgroupDriver
	imagePath string
	execs     int
	exec      func(ctx context.Context) (*runtimeapi.ExecSyncResponse, error)

	sandboxes  []*runtimeapi.PodSandbox
	containers []*runtimeapi.Container
	stats      []*runtimeapi.ContainerStats
	lists      int
	listing    time.Duration // how long a list of sandboxes takes
	events     func(ctx context.Context, event func(*runtimeapi.ContainerEventResponse)) error
}

func newFakeRuntime() *fakeRuntime {
	return &fakeRuntime{state: runtimeapi.ContainerState_CONTAINER_RUNNING}
}

func (r *fakeRuntime) set(change func(*fakeRuntime)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r)
}

func (r *fakeRuntime) ContainerStatus(_ context.Context, id string) (*runtimeapi.ContainerStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &runtimeapi.ContainerStatus{Id: id, State: r.state}, r.err
}

func (r *fakeRuntime) SandboxStatus(context.Context, string) (*runtimeapi.PodSandboxStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sandbox, r.err
}

func (r *fakeRuntime) ExecSync(ctx context.Context, _ string, _ []string, timeout time.Duration) (*runtimeapi.ExecSyncResponse, error) {
	r.mu.Lock()
	r.execs++
	exec := r.exec
	r.mu.Unlock()
	if timeout != 0 {
		return nil, fmt.Errorf("timeout %s instead of none", timeout)
	}
	return exec(ctx)
}

func (r *fakeRuntime) RuntimeConfig(context.Context) (*runtimeapi.RuntimeConfigResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &runtimeapi.RuntimeConfigResponse{Linux: &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: r.driver}}, r.err
}

func (r *fakeRuntime) ImageFsInfo(context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{
		{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: r.imagePath}}}}, r.err
}

func (r *fakeRuntime) SelectSandboxes(context.Context, map[string]string) ([]*runtimeapi.PodSandbox, error) {
	r.mu.Lock()
	r.lists++
	takes := r.listing
	r.mu.Unlock()
	time.Sleep(takes)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sandboxes, r.err
}

func (r *fakeRuntime) SelectContainers(context.Context, map[string]string) ([]*runtimeapi.Container, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.containers, r.err
}

func (r *fakeRuntime) SelectStats(context.Context, map[string]string) ([]*runtimeapi.ContainerStats, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats, r.err
}

func (r *fakeRuntime) ContainerEvents(ctx context.Context, event func(*runtimeapi.ContainerEventResponse)) error {
	r.mu.Lock()
	events := r.events
	r.mu.Unlock()
	if events == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	return events(ctx, event)
}

func (r *fakeRuntime) ran() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.execs
}

// newTestHost returns a host in directories of the test.
func newTestHost(t *testing.T, change ...func(*Options)) (*Host, *fakeRuntime) {
	t.Helper()
	runtime := newFakeRuntime()
	dir := t.TempDir()
	o := Options{RootDir: filepath.Join(dir, "root"), PodLogsDir: filepath.Join(dir, "logs"), Runtime: runtime, Version: "v1"}
	withCgroups(newFakeCgroups())(&o)
	for _, c := range change {
		c(&o)
	}
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeHost(t, h) })
	return h, runtime
}

// closeHost closes a host unless the test did.
func closeHost(t *testing.T, h *Host) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := h.Close(ctx); err != nil && !strings.Contains(err.Error(), "already closed") {
		t.Error(err)
	}
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestSecondHostOnTheSameRootIsRefusedWithItsHolder(t *testing.T) {
	h, runtime := newTestHost(t)
	options := Options{RootDir: h.rootDir, PodLogsDir: h.logsDir, Runtime: runtime}
	_, err := New(options)
	if !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), h.rootDir) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("got %v", err)
	}
	closeHost(t, h)
	next, err := New(options)
	if err != nil {
		t.Fatalf("after the first one closed: %v", err)
	}
	closeHost(t, next)
}

func TestLockOfADeadProcessIsNoHindrance(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, lockFile), "4194304\n")
	h, err := New(Options{RootDir: dir, PodLogsDir: t.TempDir(), Runtime: newFakeRuntime()})
	if err != nil {
		t.Fatal(err)
	}
	closeHost(t, h)
}

func TestRelativeDirectoriesAreRefused(t *testing.T) {
	if _, err := New(Options{RootDir: "root", PodLogsDir: "/logs"}); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), `root directory "root"`) {
		t.Errorf("got %v", err)
	}
	if _, err := New(Options{RootDir: "/root", PodLogsDir: ""}); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "pod logs") {
		t.Errorf("got %v", err)
	}
}
