// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"slices"
	"strings"
	"testing"
)

func TestKeyChangesWithEverythingThatGoesIntoTheBinary(t *testing.T) {
	base := Part{Name: "x", Package: "example.com/x/cmd/x", Tags: []string{"a"}, Vars: []string{"example.com/x.V={version}"}}
	basePin := pin{version: "v1.2.3", goMod: []byte("module m"), goSum: []byte("sum")}
	want := key(base, basePin, "go1.26.0 linux/amd64")

	if got := key(base, basePin, "go1.26.0 linux/amd64"); got != want {
		t.Fatalf("same input, keys %s and %s", want, got)
	}
	tests := map[string]func(*Part, *pin, *string){
		"tags":      func(p *Part, _ *pin, _ *string) { p.Tags = []string{"a", "b"} },
		"cgo":       func(p *Part, _ *pin, _ *string) { p.Cgo = true },
		"test":      func(p *Part, _ *pin, _ *string) { p.Test = true },
		"vars":      func(p *Part, _ *pin, _ *string) { p.Vars = nil },
		"package":   func(p *Part, _ *pin, _ *string) { p.Package += "y" },
		"version":   func(_ *Part, n *pin, _ *string) { n.version = "v1.2.4" },
		"go.mod":    func(_ *Part, n *pin, _ *string) { n.goMod = []byte("module m2") },
		"go.sum":    func(_ *Part, n *pin, _ *string) { n.goSum = []byte("sum2") },
		"boundary":  func(_ *Part, n *pin, _ *string) { n.goMod, n.goSum = []byte("module ms"), []byte("um") },
		"toolchain": func(_ *Part, _ *pin, tc *string) { *tc = "go1.27.0 linux/amd64" },
		"file":      func(p *Part, _ *pin, _ *string) { p.File = "x.json" },
		"c flags":   func(p *Part, _ *pin, _ *string) { p.CSources, p.CFlags = []string{"x.c"}, []string{"-O2"} },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			p, n, tc := base, basePin, "go1.26.0 linux/amd64"
			change(&p, &n, &tc)
			if got := key(p, n, tc); got == want {
				t.Errorf("key did not change")
			}
		})
	}
}

func TestRequiredVersion(t *testing.T) {
	const goMod = `module m

go 1.26.0

tool example.com/a/cmd/a

require example.com/single v1.0.0

require (
	example.com/a v1.2.3
	example.com/a/sub v0.1.0 // indirect
)

replace example.com/b => example.com/b v0.9.0
`
	tests := []struct{ module, want string }{
		{"example.com/single", "v1.0.0"},
		{"example.com/a", "v1.2.3"},
		{"example.com/a/sub", "v0.1.0"},
	}
	for _, tt := range tests {
		if got, err := requiredVersion(goMod, tt.module); err != nil || got != tt.want {
			t.Errorf("requiredVersion(%s) = %q, %v, want %q", tt.module, got, err, tt.want)
		}
	}
	for _, module := range []string{"example.com/b", "example.com/none", "go"} {
		if got, err := requiredVersion(goMod, module); err == nil {
			t.Errorf("requiredVersion(%s) = %q, want an error", module, got)
		}
	}
}

func TestExpand(t *testing.T) {
	tests := []struct{ text, version, want string }{
		{"a={version}", "v1.37.2", "a=v1.37.2"},
		{"{major}.{minor}", "v1.37.2", "1.37"},
		{"{major}.{minor}", "v2", "2.0"},
		{"plain", "v1.0.0", "plain"},
	}
	for _, tt := range tests {
		if got := expand(tt.text, tt.version); got != tt.want {
			t.Errorf("expand(%q, %q) = %q, want %q", tt.text, tt.version, got, tt.want)
		}
	}
}

func TestSelect(t *testing.T) {
	names := func(parts []Part) []string {
		var out []string
		for _, p := range parts {
			out = append(out, p.Name)
		}
		return out
	}
	t.Run("a set and a part of it, in catalogue order and once", func(t *testing.T) {
		parts, needs, err := Select([]string{"buf", "generate"})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := names(parts), []string{"protoc-gen-go", "protoc-gen-go-grpc", "buf"}; !slices.Equal(got, want) {
			t.Errorf("parts %v, want %v", got, want)
		}
		if len(needs) != 0 {
			t.Errorf("system packages %v, want none", needs)
		}
	})
	t.Run("all", func(t *testing.T) {
		parts, needs, err := Select([]string{"all"})
		if err != nil {
			t.Fatal(err)
		}
		if len(parts) != len(Catalogue()) || !slices.Contains(needs, "iptables") {
			t.Errorf("%d parts, system packages %v", len(parts), needs)
		}
	})
	t.Run("unknown", func(t *testing.T) {
		_, _, err := Select([]string{"kube-proxy"})
		if err == nil || !strings.Contains(err.Error(), "kube-proxy") || !strings.Contains(err.Error(), "testbed") {
			t.Errorf("error %v, want one that names the unknown and the known names", err)
		}
	})
}

func TestCatalogueIsConsistent(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range Catalogue() {
		if seen[p.Name] {
			t.Errorf("part %s is listed twice", p.Name)
		}
		seen[p.Name] = true
		ways := 0
		for _, way := range []bool{p.Package != "", len(p.CSources) > 0, p.File != ""} {
			if way {
				ways++
			}
		}
		if ways != 1 {
			t.Errorf("part %s: want a Go package, C sources or a file", p.Name)
		}
		if _, err := readPin("../../parts/"+p.Folder, p.Module); err != nil {
			t.Errorf("part %s: %v", p.Name, err)
		}
	}
	for _, s := range Sets() {
		if seen[s.Name] {
			t.Errorf("set %s has the name of a part", s.Name)
		}
		for _, name := range s.Parts {
			if !seen[name] {
				t.Errorf("set %s: unknown part %s", s.Name, name)
			}
		}
	}
}
