// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/host"
)

func statsOf(name string, attempt uint32, bytes uint64, mountpoint string) *runtimeapi.ContainerStats {
	return &runtimeapi.ContainerStats{
		Attributes:    &runtimeapi.ContainerAttributes{Metadata: &runtimeapi.ContainerMetadata{Name: name, Attempt: attempt}},
		WritableLayer: &runtimeapi.FilesystemUsage{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: mountpoint}, UsedBytes: &runtimeapi.UInt64Value{Value: bytes}},
	}
}

// usageOf measures the test's pod.
func usageOf(t *testing.T, h *Host, layers bool) *host.PodUsage {
	t.Helper()
	usage, err := h.PodUsage(t.Context(), testPod, layers)
	if err != nil {
		t.Fatal(err)
	}
	return usage
}

func TestPodUsageCountsWhatAPodHasOnDisk(t *testing.T) {
	h, runtime := newTestHost(t)
	if err := h.EnsurePod(t.Context(), testPod, []string{"main", "side"}); err != nil {
		t.Fatal(err)
	}
	empty := usageOf(t, h, true)
	dir := ensureVolume(t, h, host.Volume{Name: "cache", EmptyDir: true})
	config := writeFiles(t, h, host.FileSet{Volume: "config", Kind: host.ConfigMapVolume, Files: []host.File{{Path: "a", Data: make([]byte, 8<<10), Mode: 0o644}}})
	put(t, filepath.Join(dir, "a/b/c/file"), string(make([]byte, 64<<10)))
	put(t, filepath.Join(h.logsDir, podLogDir(testPod), "main/0.log"), string(make([]byte, 12<<10)))
	put(t, filepath.Join(h.logsDir, podLogDir(testPod), "main/0.log.20260101-000000.gz"), string(make([]byte, 12<<10)))
	if _, err := h.EnsureHostsFile(t.Context(), testUID, make([]byte, 4<<10)); err != nil {
		t.Fatal(err)
	}
	for _, link := range []error{
		os.Symlink("/", filepath.Join(dir, "everything")),
		os.Link(filepath.Join(dir, "a/b/c/file"), filepath.Join(dir, "again")), // counts once
		os.Symlink(config, filepath.Join(dir, "a/loop")),
	} {
		if link != nil {
			t.Fatal(link)
		}
	}
	runtime.set(func(r *fakeRuntime) {
		r.stats = []*runtimeapi.ContainerStats{
			statsOf("main", 1, 7<<20, h.rootDir), statsOf("main", 0, 9<<20, h.rootDir), statsOf("side", 0, 3<<20, "/proc"),
		}
	})
	got := usageOf(t, h, true)
	between := func(what string, bytes, low, high int64) {
		t.Helper()
		if bytes < low<<10 || bytes > high<<10 {
			t.Errorf("%s takes %d bytes, want %d to %d KiB", what, bytes, low, high)
		}
	}
	between("the emptyDir", got.Volumes["cache"], 64, 100)
	between("the ConfigMap", got.Volumes["config"], 8, 60)
	between("the log", got.Containers["main"].Logs-empty.Containers["main"].Logs, 24, 30)
	between("the rest", got.Other-empty.Other, 4, 8)
	if main := got.Containers["main"]; main.Layer != 7<<20 || main.Elsewhere {
		t.Errorf("main has %+v, want the layer of its newest container, beside the pods", main)
	}
	if side := got.Containers["side"]; side.Layer != 3<<20 || !side.Elsewhere {
		t.Errorf("side has %+v, want a layer elsewhere", side)
	}
	if layers := usageOf(t, h, false); layers.Containers["main"].Layer != 0 {
		t.Errorf("layers that were not wanted: %+v", layers.Containers)
	}
}

func TestPodUsageLeavesOutMemoryAndUnknownPods(t *testing.T) {
	h := newMountingHost(t)
	if diff := cmp.Diff(&host.PodUsage{Volumes: map[string]int64{}, Containers: map[string]host.ContainerUsage{}}, usageOf(t, h, true)); diff != "" {
		t.Errorf("a pod that is not there: %s", diff)
	}
	dir := ensureVolume(t, h, host.Volume{Name: "m", EmptyDir: true, Memory: true, SizeBytes: 1 << 20})
	put(t, filepath.Join(dir, "file"), string(make([]byte, 64<<10)))
	disk := ensureVolume(t, h, host.Volume{Name: "d", EmptyDir: true})
	if err := os.Mkdir(filepath.Join(disk, "inside"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(tmpfs, filepath.Join(disk, "inside"), tmpfs, 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(filepath.Join(disk, "inside"), 0); err != nil {
			t.Error(err)
		}
	}()
	put(t, filepath.Join(disk, "inside/file"), string(make([]byte, 256<<10)))
	got := usageOf(t, h, false).Volumes
	if _, counted := got["m"]; counted || got["d"] > 64<<10 {
		t.Errorf("got %v; want nothing of what is in memory", got)
	}
}

func TestPodUsageEndsWithItsCallerAndTheRuntime(t *testing.T) {
	h, runtime := newTestHost(t)
	ensureVolume(t, h, host.Volume{Name: "d", EmptyDir: true})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.PodUsage(ctx, testPod, false); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	runtime.set(func(r *fakeRuntime) { r.err = errdefs.ErrUnavailable })
	if _, err := h.PodUsage(t.Context(), testPod, true); !errdefs.IsUnavailable(err) {
		t.Errorf("without the runtime: %v", err)
	}
	if _, err := h.PodUsage(t.Context(), host.Pod{UID: "../x", Namespace: "n", Name: "p"}, false); !errdefs.IsInvalidArgument(err) {
		t.Errorf("a bad UID: %v", err)
	}
}

// TestPodWithTooManyFilesToCountTakesAtLeastWhatWasCounted, so that it cannot hide behind their number.
func TestPodWithTooManyFilesToCountTakesAtLeastWhatWasCounted(t *testing.T) {
	h, _ := newTestHost(t)
	if err := h.EnsurePod(t.Context(), testPod, []string{"main"}); err != nil {
		t.Fatal(err)
	}
	dir := ensureVolume(t, h, host.Volume{Name: "d", EmptyDir: true})
	put(t, filepath.Join(dir, "file"), string(make([]byte, 64<<10)))
	h.measureTime = 0
	got := usageOf(t, h, false)
	if got.Volumes["d"] > 64<<10 {
		t.Errorf("counted %v although there was no time", got)
	}
	h.measureTime = measureTime
	if got := usageOf(t, h, false); got.Volumes["d"] < 64<<10 {
		t.Errorf("counted %v, want the file", got)
	}
}

func TestFileWithSeveralNamesCountsOnce(t *testing.T) {
	h, _ := newTestHost(t)
	dir := ensureVolume(t, h, host.Volume{Name: "d", EmptyDir: true})
	put(t, filepath.Join(dir, "0"), string(make([]byte, 1<<20)))
	for n := range 9 {
		if err := os.Link(filepath.Join(dir, "0"), filepath.Join(dir, "again"+string(rune('1'+n)))); err != nil {
			t.Fatal(err)
		}
	}
	if got := usageOf(t, h, false).Volumes["d"]; got < 1<<20-16 || got > 1<<20+64<<10 {
		t.Errorf("takes %d bytes, want one file of a MiB", got)
	}
}
