// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPresentFindsCommandsOnThePathAndFilesByPattern(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tool-of-this-test"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	tests := []struct {
		name string
		p    probe
		want bool
	}{
		{"command on the path", probe{command: "tool-of-this-test"}, true},
		{"command elsewhere", probe{command: "no-tool-of-this-test"}, false},
		{"folder of that name", probe{command: ".."}, false},
		{"file by pattern", probe{files: []string{"/nowhere/*", dir + "/tool-*"}}, true},
		{"no file", probe{files: []string{dir + "/other-*"}}, false},
		{"not a static program", probe{files: []string{dir + "/tool-*"}, static: true}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.p.present(); got != tt.want {
				t.Errorf("present() = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestEnsureRejectsAPackageItCannotLookFor(t *testing.T) {
	err := Ensure(t.Context(), []string{"emacs"}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "emacs") {
		t.Errorf("error %v, want one that names the package", err)
	}
}

func TestEnsureDoesNothingWithoutPackages(t *testing.T) {
	t.Setenv("PATH", "") // no apt-get either
	if err := Ensure(t.Context(), nil, io.Discard); err != nil {
		t.Error(err)
	}
}
