// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCommandOfAMachine(t *testing.T) {
	h := hardware{
		name: "edge", image: image{dir: "/cache/vm/1"}, payload: "/state/payload.ext4", tap: "tb-1-2",
		address: netip.MustParsePrefix("10.192.0.3/22"), gateway: netip.MustParseAddr("10.192.0.1"),
	}
	got := h.command()
	value := func(flag string) (values []string) {
		for i, arg := range got {
			if arg == flag {
				values = append(values, got[i+1])
			}
		}
		return values
	}
	for flag, want := range map[string][]string{
		// What is cached stays as it is, and nothing of the machine reaches another network than that of the hosts.
		"-drive":  {"if=virtio,format=raw,snapshot=on,file=/cache/vm/1/disk.ext4", "if=virtio,format=raw,readonly=on,file=/state/payload.ext4"},
		"-netdev": {"tap,id=net,script=no,downscript=no,ifname=tb-1-2"},
		"-device": {"virtio-net-pci,netdev=net,romfile=,mac=52:54:00:c0:00:03", "virtio-rng-pci"},
		"-kernel": {"/cache/vm/1/vmlinuz"},
		"-initrd": {"/cache/vm/1/initrd"},
		"-smp":    {"2"},
		"-m":      {"2048"},
	} {
		if diff := cmp.Diff(want, value(flag)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", flag, diff)
		}
	}
	kernel := strings.Fields(value("-append")[0])
	for _, want := range []string{
		"systemd.unified_cgroup_hierarchy=1", "systemd.hostname=edge", "vm.address=10.192.0.3/22", "vm.gateway=10.192.0.1", "console=ttyS0",
	} {
		if !slices.Contains(kernel, want) {
			t.Errorf("the kernel is not told %s: %q", want, kernel)
		}
	}
}

func TestSourcesAreThoseOfTheSuite(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	write("etc/os-release", "ID=debian\nVERSION_CODENAME=bookworm\n")
	if _, _, err := sources(root); err == nil {
		t.Error("no error without a source")
	}
	own := write("etc/apt/sources.list.d/debian.sources", "Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm bookworm-updates\nComponents: main\n")
	write("etc/apt/sources.list.d/other.list", "deb http://other.example other-bookworm main # as on bookworm\n")
	line := write("etc/apt/sources.list", "deb http://mirror.example/debian bookworm main\n")
	suite, files, err := sources(root)
	if err != nil || suite != "bookworm" {
		t.Errorf("suite %q, %v", suite, err)
	}
	if diff := cmp.Diff([]string{line, own}, files); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	write("etc/os-release", "ID=\"fedora\"\n")
	if _, _, err := sources(root); err == nil || !strings.Contains(err.Error(), "fedora") {
		t.Errorf("on another system: %v", err)
	}
}

func TestFilesArePlacedAsTheyAre(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "source")
	if err := os.WriteFile(source, []byte("four"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		file File
		mode os.FileMode
		size int64
	}{
		{File{Path: "/etc/one", Data: "1"}, 0o644, 1},
		{File{Path: "/etc/key", Data: "12", Mode: 0o600}, 0o600, 2},
		{File{Path: "/bin/program", Source: source, Mode: 0o755}, 0o755, 4},
		{File{Path: "/bin/link", Link: "/bin/program"}, 0, 0},
	} {
		size, err := tt.file.place(filepath.Join(dir, "tree"))
		if err != nil || size != tt.size {
			t.Errorf("%s: %d bytes, %v", tt.file.Path, size, err)
		}
		info, err := os.Lstat(filepath.Join(dir, "tree", tt.file.Path))
		if err != nil {
			t.Fatal(err)
		}
		if link := info.Mode()&os.ModeSymlink != 0; link != (tt.file.Link != "") || !link && info.Mode() != tt.mode {
			t.Errorf("%s has mode %v, want %v", tt.file.Path, info.Mode(), tt.mode)
		}
	}
	for _, bad := range []File{{Path: "etc/one"}, {Path: "/etc/"}, {Path: "/etc/one", Data: "again"}} {
		if _, err := bad.place(filepath.Join(dir, "tree")); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
}

func TestKeyOfAnImageChangesWithWhatItIsMadeOf(t *testing.T) {
	key := imageKey("bookworm", "amd64")
	if key != imageKey("bookworm", "amd64") {
		t.Error("it changes by itself")
	}
	if key == imageKey("trixie", "amd64") || key == imageKey("bookworm", "arm64") {
		t.Error("it does not change")
	}
}

func TestMachineHasWhatContainerdNeeds(t *testing.T) {
	files, readOnly, err := containerdFiles("/parts", "/cache/images.tar", netip.MustParsePrefix("10.192.4.0/22"))
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]File{}
	for _, f := range files {
		there[f.Path] = f
	}
	read := map[string]bool{}
	for _, f := range readOnly {
		read[payloadDir+f.Path] = true
	}
	for _, name := range []string{"/usr/local/bin/containerd", "/usr/local/bin/runc", "/opt/cni/bin/bridge"} {
		if !read[there[name].Link] {
			t.Errorf("%s leads to %q, which is not there", name, there[name].Link)
		}
	}
	if !read[imagesFile] {
		t.Errorf("there is no %s", imagesFile)
	}
	var network map[string]any
	if err := json.Unmarshal([]byte(there["/etc/cni/net.d/10-vm.conflist"].Data), &network); err != nil {
		t.Error(err)
	}
	if !strings.Contains(there["/etc/cni/net.d/10-vm.conflist"].Data, `"10.192.4.0/22"`) {
		t.Errorf("the network is %v", network)
	}
}
