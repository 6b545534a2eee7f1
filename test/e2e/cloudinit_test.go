// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// cloudFile is the example for cloud-init.
const cloudFile = "../../deploy/cloud-init/edge.yaml"

// cloudConfig is the part of a cloud-config that the example uses.
type cloudConfig struct {
	Packages []string `json:"packages"`
	Files    []struct {
		Path        string `json:"path"`
		Permissions string `json:"permissions"`
		Content     string `json:"content"`
	} `json:"write_files"`
	Commands [][]string `json:"runcmd"`
}

var (
	// fetched is a line of the script that downloads: name, address, checksum.
	fetched = regexp.MustCompile(`fetch (\S+) "(.*)" "<sha256>"`)
	// placeholder is what a user replaces.
	placeholder = regexp.MustCompile(`<[^<>\n]+>`)
)

// TestCloudInitExample does what cloud-init does with the example, in a tree of its own: it writes the files and runs the commands, with
// programs of the testbed in place of downloads. What comes out must be a machine that can run the units.
func TestCloudInitExample(t *testing.T) {
	t.Parallel()
	e := require(t)
	text, err := os.ReadFile(cloudFile)
	must(t, err)
	if !bytes.HasPrefix(text, []byte("#cloud-config\n")) {
		t.Error("cloud-init would not know it by its first line")
	}
	m := newCloudMachine(t, e)
	filled := m.fill(string(text))
	var config cloudConfig
	must(t, yaml.UnmarshalStrict([]byte(filled), &config))
	for _, f := range config.Files {
		m.write(f.Path, f.Content, f.Permissions)
	}
	t.Run("cloud-init takes it", func(t *testing.T) {
		program, err := exec.LookPath("cloud-init")
		if err != nil {
			t.Skip("cloud-init is not installed, and is not installed for a test: it would set up this machine at its next start")
		}
		out, err := exec.CommandContext(t.Context(), program, "schema", "--config-file", cloudFile).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "Valid") {
			t.Errorf("%v: %s", err, out)
		}
	})
	for _, command := range config.Commands {
		if out, err := m.run(command...); err != nil {
			t.Fatalf("%q: %v: %s", command, err, out)
		}
	}
	done, err := os.ReadFile(filepath.Join(m.root, "commands"))
	must(t, err)
	if want := "sysctl --system\nsystemctl daemon-reload\nsystemctl enable --now containerd tombolo-host\n"; string(done) != want {
		t.Errorf("the machine was told %q, want %q", done, want)
	}
	for _, tc := range []struct {
		command []string
		want    string
	}{
		{[]string{"/usr/local/bin/containerd", "--version"}, " v2."},
		{[]string{"/usr/local/bin/containerd", "--config", "/etc/containerd/config.toml", "config", "dump"}, "SystemdCgroup = true"},
		{[]string{"/usr/local/sbin/runc", "--version"}, "runc version"},
		{[]string{"/usr/local/bin/tombolo", "version"}, "tombolo"},
		{[]string{"ls", "/opt/cni/bin"}, "bridge\nhost-local\nloopback\nportmap\n"},
		{[]string{"stat", "-c", "%a", "/etc/tombolo/host.key"}, "600\n"},
		{[]string{"sh", "-n", "/usr/local/sbin/install-tombolo-host"}, ""},
	} {
		if out, err := m.run(tc.command...); err != nil || !strings.Contains(out, tc.want) {
			t.Errorf("%q: %v: %s, want %q", tc.command, err, out, tc.want)
		}
	}
	t.Run("systemd takes the units", func(t *testing.T) {
		if _, err := exec.LookPath("systemd-analyze"); err != nil {
			t.Skip("systemd-analyze is not installed; test/vm runs the unit with a real systemd")
		}
		verify := func() {
			t.Helper()
			out, err := m.run("systemd-analyze", "verify", "--man=no", "/etc/systemd/system/containerd.service", "/etc/systemd/system/tombolo-host.service")
			if err != nil || strings.Contains(out, "tombolo-host.service:") || strings.Contains(out, "containerd.service:") {
				t.Errorf("%v: %s", err, out)
			}
		}
		verify()
		joined, err := os.ReadFile(joinedFile)
		must(t, err)
		m.write("/etc/systemd/system/tombolo-host.service.d/joined.conf", string(joined), "0644")
		verify()
	})
	t.Run("nothing is installed of what is not as expected", func(t *testing.T) {
		must(t, os.WriteFile(filepath.Join(m.downloads, "runc"), []byte("of somebody else"), 0o755))
		must(t, os.Remove(filepath.Join(m.root, "usr/local/bin/containerd")))
		out, err := m.run("/usr/local/sbin/install-tombolo-host")
		if _, missing := os.Stat(filepath.Join(m.root, "usr/local/bin/containerd")); err == nil || missing == nil {
			t.Errorf("%v, %v: %s", err, missing, out)
		}
	})
}

// cloudMachine is a tree in which the example is tried: the programs of this machine, and /etc, /opt and /usr/local of its own.
type cloudMachine struct {
	*testing.T
	env             *environment
	root, downloads string
}

func newCloudMachine(t *testing.T, e *environment) *cloudMachine {
	t.Helper()
	m := &cloudMachine{T: t, env: e, root: t.TempDir(), downloads: t.TempDir()}
	for _, dir := range []string{"etc", "opt", "usr/local", "tombolo-stubs"} {
		must(t, os.MkdirAll(filepath.Join(m.root, dir), 0o755))
	}
	for _, program := range []string{"systemctl", "sysctl"} {
		m.write("tombolo-stubs/"+program, "#!/bin/sh\necho \""+program+" $*\" >> \"$COMMANDS\"\n", "0755")
	}
	// curl is not on every machine that runs the tests. What it is asked for lies there by its name.
	m.write("tombolo-stubs/curl", "#!/bin/sh\n[ \"$1 $2 $3 $4\" = '-fsSL --retry 5 -o' ] && cp \"${6#file://}\" \"$5\"\n", "0755")
	return m
}

// write writes a file of the machine, with the permissions of cloud-init.
func (m *cloudMachine) write(name, content, permissions string) {
	m.Helper()
	var mode os.FileMode
	_, err := fmt.Sscanf(permissions, "%o", &mode)
	must(m.T, err)
	path := filepath.Join(m.root, name)
	must(m.T, os.MkdirAll(filepath.Dir(path), 0o755))
	must(m.T, os.WriteFile(path, []byte(content), mode))
	must(m.T, os.Chmod(path, mode))
}

// fill replaces the placeholders, as a user does: downloads by files of the testbed with their checksums, certificates by real ones.
func (m *cloudMachine) fill(text string) string {
	m.Helper()
	bin := m.env.cluster.Bin()
	unit, err := os.ReadFile(unitFile)
	must(m.T, err)
	contents := map[string][]byte{
		"containerd.tar.gz": m.archive("bin/", bin, "containerd", "containerd-shim-runc-v2", "ctr"),
		"cni.tgz":           m.archive("./", bin, "bridge", "host-local", "loopback", "portmap"),
	}
	for name, path := range map[string]string{"runc": filepath.Join(bin, "runc"), "tombolo": m.env.binary} {
		contents[name], err = os.ReadFile(path)
		must(m.T, err)
	}
	text = fetched.ReplaceAllStringFunc(text, func(line string) string {
		name := fetched.FindStringSubmatch(line)[1]
		content, ok := contents[name]
		if !ok {
			m.Fatalf("%s: the test has no such file", line)
		}
		delete(contents, name)
		path := filepath.Join(m.downloads, name)
		must(m.T, os.WriteFile(path, content, 0o644))
		sum := sha256.Sum256(content)
		return fmt.Sprintf("fetch %s %q %q", name, "file://"+path, hex.EncodeToString(sum[:]))
	})
	if len(contents) > 0 {
		m.Fatalf("the example fetches too little: %d files are left", len(contents))
	}
	const margin = "\n      " // of what is in a block
	for mark, content := range map[string]string{
		"<ca.crt>": "x", "<host-edge-1.crt>": "x", "<host-edge-1.key>": "x", "TOMBOLO_NODE_NAME=<edge-1>": "TOMBOLO_NODE_NAME=edge-1",
		"<deploy/systemd/tombolo-host.service>": strings.ReplaceAll(strings.TrimSpace(string(unit)), "\n", margin),
	} {
		if !strings.Contains(text, mark) {
			m.Fatalf("there is no %s", mark)
		}
		text = strings.Replace(text, "      "+mark, "      "+content, 1)
	}
	for line := range strings.Lines(text) {
		if left := placeholder.FindString(line); left != "" && !strings.HasPrefix(line, "#") {
			m.Errorf("the test does not fill in %s", left)
		}
	}
	return text
}

// archive packs programs as a release does.
func (m *cloudMachine) archive(prefix, dir string, names ...string) []byte {
	m.Helper()
	var b bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	must(m.T, err)
	w := tar.NewWriter(zipped)
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(dir, name))
		must(m.T, err)
		must(m.T, w.WriteHeader(&tar.Header{Name: prefix + name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(data)), Uid: 1000, Gid: 1000}))
		_, err = w.Write(data)
		must(m.T, err)
	}
	must(m.T, w.Close())
	must(m.T, zipped.Close())
	return b.Bytes()
}

// run runs a command on the machine.
func (m *cloudMachine) run(args ...string) (string, error) {
	const enter = `mount --make-rprivate / && for dir in etc opt usr/local; do mount --bind "$ROOT/$dir" "/$dir"; done && exec "$@"`
	cmd := exec.CommandContext(m.Context(), "unshare", append([]string{"--mount", "sh", "-euc", enter, "sh"}, args...)...)
	cmd.Env = []string{
		"ROOT=" + m.root, "COMMANDS=" + filepath.Join(m.root, "commands"),
		"PATH=" + filepath.Join(m.root, "tombolo-stubs") + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}
