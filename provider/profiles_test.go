// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/containerd/errdefs"
)

func TestProfilesAreReadFromTheirDirectoryOnly(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	for path, data := range map[string]string{
		filepath.Join(outside, "secret"): "secret", filepath.Join(dir, "deny.json"): "deny", filepath.Join(dir, "big"): string(make([]byte, maxProfileBytes+1)),
	} {
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	profiles := profileDir(dir)
	if data, err := profiles.Seccomp("deny.json"); err != nil || string(data) != "deny" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := profiles.Seccomp("none.json"); !errdefs.IsNotFound(err) {
		t.Errorf("a profile that is not there: %v", err)
	}
	for _, name := range []string{"link", "../" + filepath.Base(outside) + "/secret", "big", "."} {
		if data, err := profiles.Seccomp(name); err == nil || errdefs.IsNotFound(err) {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
}
