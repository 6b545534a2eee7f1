// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
)

func TestChooseBlockAvoidsWhatTheMachineKnows(t *testing.T) {
	free, err := chooseBlock("a1b2c3", nil)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := chooseBlock("a1b2c3", nil); again != free {
		t.Errorf("one identifier chose %v and then %v", free, again)
	}
	pool := pools()[0]
	tests := map[string]struct {
		used []netip.Prefix
		from netip.Prefix
	}{
		"an address in it":    {[]netip.Prefix{netip.PrefixFrom(free.Addr().Next(), 32)}, pool},
		"a network around it": {[]netip.Prefix{netip.PrefixFrom(free.Addr(), 12).Masked()}, pool},
		"all of the pool":     {[]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, pools()[1]},
		"two pools":           {[]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12")}, pools()[2]},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := chooseBlock("a1b2c3", tt.used)
			if err != nil {
				t.Fatal(err)
			}
			if overlapsAny(got, tt.used) || !tt.from.Overlaps(got) || got.Bits() != blockBits {
				t.Errorf("chose %v, want a /%d of %v apart from %v", got, blockBits, tt.from, tt.used)
			}
		})
	}
}

func TestChooseBlockTakesEveryBlockOnceAndThenFails(t *testing.T) {
	var used []netip.Prefix
	for {
		block, err := chooseBlock("ffffff", used)
		if err != nil {
			break
		}
		if overlapsAny(block, used) {
			t.Fatalf("%v was chosen twice", block)
		}
		used = append(used, block)
	}
	want := 0
	for _, p := range pools() {
		want += 1 << (blockBits - p.Bits())
	}
	if len(used) != want {
		t.Errorf("%d blocks chosen, want all %d", len(used), want)
	}
}

func TestAddressesOfABlockDoNotMeet(t *testing.T) {
	a := addresses{netip.MustParsePrefix("10.192.64.0/18")}
	networks := []netip.Prefix{a.machines(), a.services()}
	for i := uint32(1); i <= maxHosts; i++ {
		networks = append(networks, a.pods(i))
		if !a.machines().Contains(a.host(i)) || a.host(i) == a.bridge() {
			t.Errorf("host %d has address %v", i, a.host(i))
		}
	}
	for i, n := range networks {
		if !a.block.Overlaps(n) || n.Bits() != networkBits || overlapsAny(n, networks[:i]) {
			t.Errorf("network %v is outside the block or overlaps another", n)
		}
	}
	got := []string{a.bridge().String(), a.host(1).String(), a.pods(1).String(), a.services().String(), a.firstService().String()}
	want := []string{"10.192.64.1", "10.192.64.2", "10.192.68.0/22", "10.192.124.0/22", "10.192.124.1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
}

func TestLinkNamesFit(t *testing.T) {
	if name := vethName(newID(), maxHosts); len(name) > 15 {
		t.Errorf("%s has %d characters", name, len(name))
	}
}

func TestParseRoutes(t *testing.T) {
	got, err := parseRoutes([]byte(`[{"dst":"default","gateway":"10.0.0.1"},{"dst":"10.0.0.0/24"},{"type":"local","dst":"10.0.0.7"}]`))
	if err != nil {
		t.Fatal(err)
	}
	want := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("10.0.0.7/32")}
	if !slices.Equal(got, want) {
		t.Errorf("routes %v, want %v", got, want)
	}
	for _, bad := range []string{`{`, `[{"dst":"somewhere"}]`} {
		if got, err := parseRoutes([]byte(bad)); err == nil {
			t.Errorf("parseRoutes(%s) = %v, want an error", bad, got)
		}
	}
}

func TestParseStat(t *testing.T) {
	const numbers = " 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 0 0"
	tests := []struct {
		name, stat string
		status     byte
		start      uint64
		fails      bool
	}{
		{"plain", "42 (etcd) S" + numbers, 'S', 98765, false},
		{"blanks and parentheses in the name", "42 (a) R (b c) Z" + numbers, 'Z', 98765, false},
		{"cut short", "42 (etcd) S 1 2 3", 0, 0, true},
		{"no name", "42 etcd S" + numbers, 0, 0, true},
		{"empty", "", 0, 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, start, err := parseStat([]byte(tt.stat))
			if tt.fails != (err != nil) || (!tt.fails && (status != tt.status || start != tt.start)) {
				t.Errorf("parseStat = %c, %d, %v", status, start, err)
			}
		})
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("42 (a) R (b c) Z 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 0 0"))
	f.Add([]byte(") ("))
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _, _ = parseStat(data) // must not panic
	})
}

func TestRecordedProcessIsNotMistakenForALaterOneWithItsID(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	r, err := record("sleep", cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if !r.alive() {
		t.Error("a running process is not alive")
	}
	later := r
	later.Start++
	if later.alive() {
		t.Error("a process with another start time is taken for the same")
	}
	if err := later.kill(); err != nil || !r.alive() {
		t.Errorf("killing a process of the past: %v, and the one with its id lives: %v", err, r.alive())
	}
}

func TestMarkedProcessesFindsChildrenOfTheMarked(t *testing.T) {
	id := newID()
	// The shell stays the parent of sleep because it has something to do afterwards.
	cmd := exec.Command("sh", "-c", "sleep 60; true")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), markVariable + "=" + id}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	err := poll(t.Context(), func() bool {
		found, err := markedProcesses(id)
		return err != nil || len(found) == 2
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := killMarked(t.Context(), id); err != nil {
		t.Error(err)
	}
	if found, err := markedProcesses(id); err != nil || slices.ContainsFunc(found, recorded.alive) {
		t.Errorf("after the kill: %v, %v", found, err)
	}
}

func TestParseHierarchies(t *testing.T) {
	const mountinfo = `22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:27 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
31 30 0:28 / /sys/fs/cgroup/cpu rw,relatime shared:9 master:2 - cgroup cgroup rw,cpu
40 30 0:37 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
malformed
`
	want := []hierarchy{{Mount: "/sys/fs/cgroup/cpu"}, {Mount: "/sys/fs/cgroup/unified", unified: true}}
	if diff := cmp.Diff(want, parseHierarchies(mountinfo), cmp.AllowUnexported(hierarchy{})); diff != "" {
		t.Errorf("hierarchies (-want +got):\n%s", diff)
	}
}

func TestMountsBelow(t *testing.T) {
	const mountinfo = `22 1 8:1 / / rw - ext4 /dev/sda1 rw
50 22 0:50 / /tmp/bed rw - tmpfs tmpfs rw
51 22 0:51 / /tmp/bed/a rw - tmpfs tmpfs rw
52 51 0:52 / /tmp/bed/a/b rw - tmpfs tmpfs rw
53 22 0:53 / /tmp/bedding/a rw - tmpfs tmpfs rw
`
	if got, want := mountsBelow(mountinfo, "/tmp/bed"), []string{"/tmp/bed/a", "/tmp/bed/a/b"}; !slices.Equal(got, want) {
		t.Errorf("mounts %v, want %v", got, want)
	}
}

func TestStateSurvivesAndIsNotOverwritten(t *testing.T) {
	dir := t.TempDir()
	st, err := createStore(dir, state{ID: "a1b2c3", Bin: "/bin"})
	if err != nil {
		t.Fatal(err)
	}
	p := recorded{Name: "etcd", PID: 7, Start: 9}
	if err := st.addProcess(p); err != nil {
		t.Fatal(err)
	}
	if err := st.update(func(s *state) { s.Block = netip.MustParsePrefix("10.192.0.0/18") }); err != nil {
		t.Fatal(err)
	}
	again, err := openStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	same := cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
	if diff := cmp.Diff(st.get(), again.get(), same); diff != "" {
		t.Errorf("state read back (-want +got):\n%s", diff)
	}
	if _, err := createStore(dir, state{ID: "ffffff"}); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("a second testbed in the folder: error %v, want one that names it", err)
	}
	if err := again.removeProcess(p); err != nil || len(again.get().Processes) != 0 {
		t.Errorf("removing the process: %v, left %v", err, again.get().Processes)
	}
}

func TestOpenAndCleanOfAFolderWithoutTestbed(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Open: %v, want os.ErrNotExist", err)
	}
	if err := Clean(t.Context(), dir, nil); err != nil {
		t.Errorf("Clean: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, stateFile), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Clean(t.Context(), dir, nil); err == nil {
		t.Error("Clean of a state without identifier: no error; it would clean what has no name")
	}
}

func TestMakeStateDirRefusesWhatWouldFailLater(t *testing.T) {
	for name, dir := range map[string]string{
		"too long":   filepath.Join(t.TempDir(), strings.Repeat("x", maxStateDir)),
		"with comma": "/tmp/a,b",
		"with blank": "/tmp/a b",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := makeStateDir(dir); err == nil || !strings.Contains(err.Error(), "state folder") {
				t.Errorf("makeStateDir(%q): %v", dir, err)
			}
			if exists(dir) {
				t.Errorf("%s was made", dir)
			}
		})
	}
}

// pkiCluster has certificates and nothing else.
func pkiCluster(t *testing.T) *Cluster {
	t.Helper()
	st, err := createStore(t.TempDir(), state{ID: "a1b2c3", Block: netip.MustParsePrefix("10.192.0.0/18"), Server: "https://10.192.0.1:6443"})
	if err != nil {
		t.Fatal(err)
	}
	c := newCluster(st, Options{})
	if err := c.createPKI(); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestServingCertIsForItsAddressesAndSignedByTheClusterCA(t *testing.T) {
	c := pkiCluster(t)
	certFile, keyFile, err := c.ServingCert("edge-1", c.Address())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(c.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	for name, valid := range map[string]bool{"edge-1": true, "10.192.0.1": true, "10.192.0.2": false, "edge-2": false} {
		_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name})
		if valid != (err == nil) {
			t.Errorf("certificate for %s: %v", name, err)
		}
	}
	if info, err := os.Stat(keyFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key file: %v, %v", info.Mode(), err)
	}
}

func TestNodeKubeconfigCarriesTheIdentityTheNodeAuthorizerExpects(t *testing.T) {
	c := pkiCluster(t)
	file, err := c.NodeKubeconfig("edge-1")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != c.Server() || config.CAFile != c.CAFile() {
		t.Errorf("server %s with CA %s", config.Host, config.CAFile)
	}
	pair, err := tls.LoadX509KeyPair(config.CertFile, config.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	subject := pair.Leaf.Subject
	if subject.CommonName != "system:node:edge-1" || !slices.Equal(subject.Organization, []string{"system:nodes"}) {
		t.Errorf("subject %v", subject)
	}
	if again, err := c.NodeKubeconfig("edge-1"); err != nil || again != file {
		t.Errorf("second call: %s, %v", again, err)
	}
}

func TestMachineIDsDiffer(t *testing.T) {
	first, second := machineID("a1b2c3", 1), machineID("a1b2c3", 17)
	if len(first) != 32 || len(second) != 32 || first == second {
		t.Errorf("machine ids %s and %s", first, second)
	}
}
