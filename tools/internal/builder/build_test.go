// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fakePins makes a folder of pins with one module whose program prints its version, or does not compile.
func fakePins(t *testing.T, program string) (pins string, p Part) {
	t.Helper()
	pins = t.TempDir()
	for name, text := range map[string]string{
		"hello/go.mod":    "module pins\n\ngo 1.26.0\n\nrequire example.com/hello v1.2.3\n\nreplace example.com/hello => ../source\n",
		"hello/go.sum":    "",
		"source/go.mod":   "module example.com/hello\n\ngo 1.26.0\n",
		"source/hello.go": program,
	} {
		file := filepath.Join(pins, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return pins, Part{
		Name: "hello", Folder: "hello", Module: "example.com/hello", Package: "example.com/hello",
		Vars: []string{"main.version={version}"}, Needs: []string{"gcc"},
	}
}

const goodProgram = "package main\n\nvar version string\n\nfunc main() { println(version) }\n"

// buildOne is Build for a part that is not in the catalogue.
func buildOne(ctx context.Context, b *Builder, p Part) (target, error) {
	t, err := b.target(p)
	if err != nil || t.built() {
		return t, err
	}
	return t, b.build(ctx, t, "[1/1]")
}

func TestBuildStampsTheVersionAndIsNotRepeated(t *testing.T) {
	pins, p := fakePins(t, goodProgram)
	var out bytes.Buffer
	b := New(pins, t.TempDir(), &out)
	built, err := buildOne(t.Context(), b, p)
	if err != nil {
		t.Fatal(err)
	}
	said, err := exec.CommandContext(t.Context(), built.binary).CombinedOutput()
	if err != nil || strings.TrimSpace(string(said)) != "v1.2.3" {
		t.Errorf("the program says %q, %v, want its version", said, err)
	}
	if !strings.Contains(out.String(), "hello v1.2.3 done in ") {
		t.Errorf("progress %q, want name, version and time", out.String())
	}

	t.Setenv("PATH", "") // no go command
	if _, err := buildOne(t.Context(), b, p); err != nil {
		t.Errorf("second build: %v; it needs nothing", err)
	}
	p.Tags = []string{"other"}
	if _, err := buildOne(t.Context(), b, p); err == nil {
		t.Error("another build tag: no build was tried")
	}
}

func TestBuildOfATestBinaryRunsItsTests(t *testing.T) {
	pins, p := fakePins(t, goodProgram)
	const test = "package main\n\nimport \"testing\"\n\nfunc TestTested(t *testing.T) { println(\"tested\") }\n"
	if err := os.WriteFile(filepath.Join(pins, "source", "hello_test.go"), []byte(test), 0o644); err != nil {
		t.Fatal(err)
	}
	p.Test = true
	built, err := buildOne(t.Context(), New(pins, t.TempDir(), &bytes.Buffer{}), p)
	if err != nil {
		t.Fatal(err)
	}
	said, err := exec.CommandContext(t.Context(), built.binary, "-test.run", "Tested").CombinedOutput()
	if err != nil || !strings.Contains(string(said), "tested") || !strings.Contains(string(said), "PASS") {
		t.Errorf("the test binary says %q, %v, want what its test prints and PASS", said, err)
	}
}

func TestFileOfAModuleIsKeptAsItIs(t *testing.T) {
	const file = "api/openapi-spec/swagger.json"
	cache := t.TempDir()
	b := New("../../parts", cache, &bytes.Buffer{})
	// The module is there: this very file is pinned for make unit.
	built, err := buildOne(t.Context(), b, openAPI("kubernetes", "1.37"))
	if err != nil {
		t.Fatal(err)
	}
	root, err := sources(t.Context(), built)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(built.binary); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v, want %d", len(got), err, len(want))
	}
}

func TestBuildThatWasInterruptedIsNotTakenForDone(t *testing.T) {
	pins, p := fakePins(t, goodProgram)
	b := New(pins, t.TempDir(), &bytes.Buffer{})
	wanted, err := b.target(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(wanted.binary), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(wanted.binary+".part", []byte("half a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := buildOne(ctx, b, p); err == nil || wanted.built() {
		t.Fatalf("cancelled build: error %v, built %v", err, wanted.built())
	}
	if _, err := buildOne(t.Context(), b, p); err != nil || !wanted.built() {
		t.Errorf("next build: error %v, built %v", err, wanted.built())
	}
}

func TestBuildFailureNamesThePartAndShowsTheLog(t *testing.T) {
	pins, p := fakePins(t, "package main\n\nfunc main() { nothing() }\n")
	b := New(pins, t.TempDir(), &bytes.Buffer{})
	_, err := buildOne(t.Context(), b, p)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"building hello v1.2.3", "undefined: nothing", "hello.log"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
}

func TestLinkReplacesOneThatPointsElsewhere(t *testing.T) {
	cache := t.TempDir()
	bin := filepath.Join(cache, "bin", "set")
	for _, version := range []string{"v1", "v2", "v2"} {
		binary := filepath.Join(cache, "parts", "hello", version, "hello")
		if err := os.MkdirAll(filepath.Dir(binary), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(binary, []byte(version), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := link(bin, target{Part: Part{Name: "hello"}, binary: binary}); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(bin, "hello")); err != nil || string(got) != version {
			t.Errorf("the link leads to %q, %v, want %q", got, err, version)
		}
	}
	if entries, err := os.ReadDir(bin); err != nil || len(entries) != 1 {
		t.Errorf("links %v, %v, want one", entries, err)
	}
}
