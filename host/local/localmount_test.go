// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/host"
)

// mountedWith returns the options of the mount at a path in the root directory, nil if nothing is mounted there.
func mountedWith(t *testing.T, h *Host, rel string) []string {
	t.Helper()
	mounts, err := h.mountsBelow(rel)
	if err != nil {
		t.Fatal(err)
	}
	if len(mounts) != 1 {
		return nil
	}
	return strings.Split(mounts[0].Options, ",")
}

func TestLocalVolumeIsMountedWithItsOptionsUntilThePodIsRemoved(t *testing.T) {
	h := newMountingHost(t)
	dir := t.TempDir()
	put(t, filepath.Join(dir, "file"), "x")
	options := []string{"bind", "defaults", "noatime", "nodev", "noexec", "nosuid", "ro"}
	v := host.Volume{Name: "v", Local: &host.LocalVolume{Path: dir, FSGroup: ptr.To(int64(os.Getegid())), MountOptions: options}}
	for range 2 { // the second call finds what the first one made
		made, err := h.EnsureVolume(t.Context(), testUID, v)
		if err != nil {
			t.Fatal(err)
		}
		if want := h.real(localMountPath(testUID, "v")); made.Path != want || !made.Mounted {
			t.Fatalf("%+v, want %s", made, want)
		}
		got := mountedWith(t, h, localMountPath(testUID, "v"))
		for _, want := range options[2:] {
			if !slices.Contains(got, want) {
				t.Errorf("mounted with %q, without %s", got, want)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(h.real(localMountPath(testUID, "v")), "file")); err != nil {
		t.Error(err)
	}
	part, err := h.EnsureSubPath(t.Context(), testUID, host.SubPath{Volume: "v", HostPath: h.real(localMountPath(testUID, "v")), Path: "file", Container: "c"})
	if err != nil {
		t.Fatal(err)
	}
	rel, err := filepath.Rel(h.rootDir, part)
	if err != nil || !slices.Contains(mountedWith(t, h, rel), "noexec") {
		t.Errorf("a part of it is mounted with %q, %v", mountedWith(t, h, rel), err)
	}
	if err := h.RemovePod(t.Context(), testUID, true); err != nil {
		t.Fatal(err)
	}
	if mounts, err := h.mountsBelow(podDir(testUID)); err != nil || len(mounts) != 0 {
		t.Errorf("still mounted: %v, %v", mounts, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "file")); err != nil {
		t.Errorf("after the pod: %v", err)
	}
}

// TestLocalVolumeHasNoMoreThanTheDirectory that it is of: options take away and give nothing.
func TestLocalVolumeHasNoMoreThanTheDirectory(t *testing.T) {
	h := newMountingHost(t)
	first := host.Volume{Name: "v", Local: &host.LocalVolume{Path: t.TempDir(), MountOptions: []string{"nosuid", "ro"}}}
	restricted := ensureVolume(t, h, first)
	ensureVolume(t, h, host.Volume{Name: "w", Local: &host.LocalVolume{Path: restricted, MountOptions: []string{"noexec", "rw", "suid"}}})
	got := mountedWith(t, h, localMountPath(testUID, "w"))
	for _, want := range []string{"noexec", "nosuid", "ro"} {
		if !slices.Contains(got, want) {
			t.Errorf("mounted with %q, without %s", got, want)
		}
	}
}

func TestUnknownMountOptionIsRefusedByName(t *testing.T) {
	h, _ := newTestHost(t)
	v := host.Volume{Name: "v", Local: &host.LocalVolume{Path: t.TempDir(), MountOptions: []string{"noexec", "sync"}}}
	_, err := h.EnsureVolume(t.Context(), testUID, v)
	if !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), `mount option "sync"`) {
		t.Errorf("got %v", err)
	}
	if mountedWith(t, h, localMountPath(testUID, "v")) != nil {
		t.Error("it is mounted")
	}
}

func TestMountOptionsThatExcludeEachOtherDoNotFail(t *testing.T) {
	h := newMountingHost(t)
	ensureVolume(t, h, host.Volume{Name: "v", Local: &host.LocalVolume{Path: t.TempDir(), MountOptions: []string{"noatime", "relatime", "strictatime"}}})
	if got := mountedWith(t, h, localMountPath(testUID, "v")); slices.Contains(got, "noatime") || slices.Contains(got, "relatime") {
		t.Errorf("mounted with %q", got)
	}
}

// TestVolumeForOnePodIsRefusedToOthersUntilItsPodIsRemoved, also by another process.
func TestVolumeForOnePodIsRefusedToOthersUntilItsPodIsRemoved(t *testing.T) {
	h, _ := newTestHost(t)
	dir := t.TempDir()
	sole := host.Volume{Name: "v", Local: &host.LocalVolume{Path: dir, Sole: true}}
	ensure := func(uid types.UID, v host.Volume, refused bool) {
		t.Helper()
		_, err := h.EnsureVolume(t.Context(), uid, v)
		switch {
		case !refused && err != nil:
			t.Fatal(err)
		case refused && (!errdefs.IsFailedPrecondition(err) ||
			!strings.HasPrefix(err.Error(), "volume uses the ReadWriteOncePod access mode and is already in use by another pod: ")):
			t.Fatalf("pod %s: %v", uid, err)
		}
	}
	ensure("a", sole, false)
	ensure("a", sole, false)
	ensure("b", sole, true)
	ensure("b", sole, true) // it got nothing by having asked
	root := h.rootDir
	closeHost(t, h)
	h, _ = newTestHost(t, func(o *Options) { o.RootDir = root })
	ensure("b", sole, true)
	grouped := host.Volume{Name: "v", Local: &host.LocalVolume{Path: dir, Sole: true, FSGroup: ptr.To(int64(os.Getegid()))}}
	ensure("c", grouped, true)
	ensure("d", host.Volume{Name: "v", Local: &host.LocalVolume{Path: t.TempDir(), Sole: true}}, false)
	if err := h.RemovePod(t.Context(), "a", true); err != nil {
		t.Fatal(err)
	}
	ensure("b", sole, false)
	ensure("c", grouped, true)
}
