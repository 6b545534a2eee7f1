// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/tombolo-dev/tombolo/host"
)

func TestFilesOfVolumesAreReadAndNothingElse(t *testing.T) {
	h, _ := newTestHost(t)
	dir := ensureVolume(t, h, host.Volume{Name: "v", EmptyDir: true})
	outside := filepath.Join(t.TempDir(), "secret")
	put(t, outside, "secret")
	put(t, filepath.Join(dir, "a/env"), "A='1'")
	put(t, filepath.Join(dir, "large"), string(make([]byte, host.MaxVolumeFileBytes+1)))
	put(t, filepath.Join(dir, "full"), string(make([]byte, host.MaxVolumeFileBytes)))
	for name, target := range map[string]string{"inside": "a/env", "outside": outside, "up": "../../../../../" + lockFile, "dir": filepath.Dir(outside),
		"nowhere": "missing", "outside-missing": outside + "-missing", "up-missing": "../../../../../missing", "loop": "loop",
		"a/in": "../a/../full", "through": "a/in", "a/out": "../../x"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o666); err != nil {
		t.Fatal(err)
	}
	for path, is := range map[string]func(error) bool{
		"a/env": nil, "inside": nil, "full": nil, "./a//env": nil, "a/env/": nil, "through": nil,
		"outside-missing": errdefs.IsPermissionDenied, "up-missing": errdefs.IsPermissionDenied, "a/out": errdefs.IsPermissionDenied,
		"dir-missing/x": errdefs.IsNotFound, "dir/missing": errdefs.IsPermissionDenied, "nowhere": errdefs.IsNotFound,
		"loop":    func(err error) bool { return err != nil },
		"outside": errdefs.IsPermissionDenied, "up": errdefs.IsPermissionDenied, "dir/secret": errdefs.IsPermissionDenied,
		"large": errdefs.IsFailedPrecondition, "pipe": errdefs.IsFailedPrecondition, "a": errdefs.IsFailedPrecondition,
		"missing": errdefs.IsNotFound, "b/missing": errdefs.IsNotFound,
		"../x": errdefs.IsInvalidArgument, "/etc/passwd": errdefs.IsInvalidArgument, "": errdefs.IsInvalidArgument,
	} {
		data, err := h.ReadVolumeFile(t.Context(), testUID, host.VolumeFile{Volume: "v", Kind: host.EmptyDirVolume, Path: path})
		switch {
		case is == nil && (err != nil || len(data) == 0):
			t.Errorf("%q: %v, %d bytes", path, err, len(data))
		case is != nil && (!is(err) || data != nil):
			t.Errorf("%q: %v, %q", path, err, data)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "b")); err == nil {
		t.Error("reading made a directory")
	}
	if _, err := h.ReadVolumeFile(t.Context(), testUID, host.VolumeFile{Volume: "v", Kind: "other", Path: "a"}); !errdefs.IsInvalidArgument(err) {
		t.Errorf("an unknown kind: %v", err)
	}
}
