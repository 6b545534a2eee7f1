// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package hostconn

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/crypto/ssh"

	"github.com/tombolo-dev/tombolo/link/sshlink"
)

// sshOptions are options that are right, for a host at an address.
func sshOptions(t *testing.T, address string) Options {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Target: "ssh://edge@" + address, RootDir: "/root dir", PodLogsDir: "/logs", Version: "v9",
		SSH: SSH{
			HostKeys: sshlink.HostKeys{Pinned: []string{ssh.FingerprintSHA256(key)}}, Identity: sshlink.Identity{KeyFile: file},
			Containerd: "/c.sock", Policy: "/policy", Verbosity: 4,
		},
	}
}

func TestArgumentsOfTheHostProcess(t *testing.T) {
	o := sshOptions(t, "192.0.2.1")
	want := []string{
		"host", "--stdio", "--log-format=json", "--v=4", "--containerd=/c.sock", "--root=/root dir", "--pod-logs-dir=/logs", "--policy=/policy",
	}
	if d := cmp.Diff(want, o.hostArgs()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	o.SSH.Policy = ""
	if d := cmp.Diff(want[:len(want)-1], o.hostArgs()); d != "" {
		t.Errorf("without a policy (-want +got):\n%s", d)
	}
	o.Inspect = true
	if d := cmp.Diff(append(want[:len(want)-1:len(want)-1], "--inspect"), o.hostArgs()); d != "" {
		t.Errorf("for looking only (-want +got):\n%s", d)
	}
}

// TestWhatIsNoSSHServerIsToldAsALinkThatIsDown: in the words of any other link.
func TestWhatIsNoSSHServerIsToldAsALinkThatIsDown(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-ended
	})
	o := sshOptions(t, listener.Addr().String())
	registry := prometheus.NewPedanticRegistry()
	o.Registerer = registry
	c := open(t, o)
	eventually(t, "the reason is known", func() bool {
		return strings.Contains(c.Err().Error(), "dialing "+o.Target+": logging in as edge@"+listener.Addr().String()) &&
			strings.Contains(c.Err().Error(), "closed the connection during the login")
	})
	if err := second(c.Host.ListPods(t.Context())); !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), o.Target) {
		t.Errorf("a call: %v", err)
	}
	for _, name := range []string{"tombolo_node_host_keys_refused_total", "tombolo_node_link_up", "tombolo_node_link_losses_total"} {
		if n, err := testutil.GatherAndCount(registry, name); n != 1 || err != nil {
			t.Errorf("%d of %s, %v", n, name, err)
		}
	}
}

func TestSSHOptionsThatCannotWorkAreNamed(t *testing.T) {
	o := sshOptions(t, "192.0.2.1")
	o.SSH.HostKeys = sshlink.HostKeys{}
	o.SSH.Identity.KeyFile += "-missing"
	if _, err := Connect(o); err == nil || !strings.Contains(err.Error(), o.SSH.Identity.KeyFile) || !strings.Contains(err.Error(), "host keys") {
		t.Errorf("got %v", err)
	}
}

// TestCallsDoNotWaitForALoginThatHangs: they fail with what it waits for.
func TestCallsDoNotWaitForALoginThatHangs(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes the connection, and nobody answers
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	c := open(t, sshOptions(t, listener.Addr().String()))
	eventually(t, "the login has begun", func() bool { return strings.Contains(c.Err().Error(), "logging in as") })
	if err := second(c.Host.ListPods(t.Context())); !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), "which is not done yet") {
		t.Errorf("a call: %v", err)
	}
	if err := second(runtimeOf(c).Version(t.Context())); !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), "which is not done yet") {
		t.Errorf("a call of the runtime: %v", err)
	}
}
