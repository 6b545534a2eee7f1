// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package previous

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repository is a git repository made for one test.
type repository struct {
	*testing.T
	dir string
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	for _, variable := range os.Environ() { // a hook of git that runs the tests must not lead them to its own repository
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "GIT_") {
			t.Setenv(name, "")
			must(t, os.Unsetenv(name))
		}
	}
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	r := &repository{T: t, dir: t.TempDir()}
	r.git("init", "-q")
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (r *repository) git(args ...string) string {
	r.Helper()
	out, err := git(r.Context(), r.dir, append([]string{"-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false"}, args...)...)
	must(r.T, err)
	return out
}

// write writes a file.
func (r *repository) write(name, content string) {
	r.Helper()
	name = filepath.Join(r.dir, name)
	must(r.T, os.MkdirAll(filepath.Dir(name), 0o755))
	must(r.T, os.WriteFile(name, []byte(content), 0o644))
}

// commit writes a file and commits it.
func (r *repository) commit(name, content string) string {
	r.Helper()
	r.write(name, content)
	r.git("add", ".")
	r.git("commit", "-q", "-m", name)
	return r.git("rev-parse", "HEAD")
}

func (r *repository) want(what, want string) {
	r.Helper()
	if got, err := Commit(r.Context(), r.dir); err != nil || got != want {
		r.Errorf("%s: %s, %v, want %s", what, got, err, want)
	}
}

func TestPreviousVersion(t *testing.T) {
	r := newRepository(t)
	if got, err := Commit(t.Context(), r.dir); !errors.Is(err, ErrNoHistory) {
		t.Errorf("before the first commit: %s, %v", got, err)
	}
	first := r.commit("cmd/tombolo/main.go", "1")
	if got, err := Commit(t.Context(), r.dir); !errors.Is(err, ErrNoHistory) {
		t.Errorf("at the first commit: %s, %v", got, err)
	}
	r.commit("cri/cri.go", "2")
	r.want("after a change of the product", first)
	for _, other := range []string{"README.md", "cri/cri_test.go", "test/e2e/x.go", "tools/x.go"} {
		r.commit(other, "3")
		r.want("after a change of "+other, first)
	}
	head := r.git("rev-parse", "HEAD")
	r.write("README.md", "4")
	r.want("with a change beside the product", first)
	r.write("host/host.go", "4")
	r.want("with a change that is not committed", head)
	r.commit("go.mod", "5")
	r.want("after a change of the modules", head)
	r.git("tag", "v0.1.0", first)
	r.git("tag", "nightly", head)
	r.want("after a release", first)
	r.git("tag", "v0.2.0")
	r.want("at a release", first)

	shallow := filepath.Join(t.TempDir(), "shallow")
	r.git("clone", "-q", "--depth", "1", "file://"+r.dir, shallow)
	if got, err := Commit(t.Context(), shallow); !errors.Is(err, ErrNoHistory) || !strings.Contains(err.Error(), "--unshallow") {
		t.Errorf("without the history: %s, %v", got, err)
	}
	if got, err := Commit(t.Context(), t.TempDir()); !errors.Is(err, ErrNoHistory) {
		t.Errorf("without git: %s, %v", got, err)
	}
}

func TestBinaryIsThatOfTheCommit(t *testing.T) {
	r := newRepository(t)
	r.write("go.mod", "module example.com/tombolo\n\ngo 1.25\n")
	const program = "package main\n\nvar version string\n\nfunc main() { println(VERSION, version) }\n"
	first := r.commit("cmd/tombolo/main.go", strings.ReplaceAll(program, "VERSION", `"first"`))
	r.commit("cmd/tombolo/main.go", strings.ReplaceAll(program, "VERSION", `"second"`))
	cache := t.TempDir()
	binary, err := Build(t.Context(), r.dir, first, cache)
	must(t, err)
	out, err := exec.CommandContext(t.Context(), binary).CombinedOutput()
	must(t, err)
	if want := "first previous-" + first + "\n"; string(out) != want {
		t.Errorf("it says %q, want %q", out, want)
	}
	must(t, os.WriteFile(binary, []byte("kept"), 0o755))
	again, err := Build(t.Context(), r.dir, first, cache)
	must(t, err)
	if data, err := os.ReadFile(again); err != nil || string(data) != "kept" {
		t.Errorf("it was built again: %v", err)
	}
	if _, err := Build(t.Context(), r.dir, "0123456789", cache); err == nil {
		t.Error("a commit that is not there was built")
	}
}
