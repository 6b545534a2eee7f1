// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tombolo-dev/tombolo/test/testbed"
)

// sshArgs lead tombolo node to the site's host over SSH.
func (s *site) sshArgs() []string {
	return []string{
		"--host", "ssh://" + s.sshUser + "@" + s.host.Address().String(), "--host-ssh-key-file", s.ssh.KeyFile,
		"--host-ssh-known-hosts", s.ssh.KnownHosts, "--host-ssh-sudo=" + strconv.FormatBool(s.sshUser != "root"),
		"--host-ssh-cache-dir", s.cacheDir(),
		"--host-containerd", s.host.ContainerdSocket(), "--root-dir", s.rootDir(), "--pod-logs-dir", s.logsDir(),
	}
}

// cacheDir is below /var, which each host has for itself, unlike the home of root.
func (s *site) cacheDir() string { return filepath.Join("/var/lib", s.sshUser, "tombolo-cache") }

// hostProcesses are the processes on the host that have the site's root directory on their command line.
func (s *site) hostProcesses(t *testing.T) []int {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	must(t, err)
	var pids []int
	for _, dir := range dirs {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err == nil && strings.Contains(string(line), "--root="+s.rootDir()+"\x00") && strings.Contains(string(line), "--stdio") {
			pid, err := strconv.Atoi(filepath.Base(dir))
			must(t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}

// sshSession is the process of sshd that carries the site's connection, 0 if there is none.
func (s *site) sshSession(t *testing.T) int {
	t.Helper()
	for _, pid := range s.hostProcesses(t) {
		for pid > 1 {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err != nil {
				break
			}
			_, after, _ := strings.Cut(string(stat), ") ")
			if strings.Contains(string(stat), "(sshd") {
				return pid
			}
			if pid, err = strconv.Atoi(strings.Fields(after)[1]); err != nil {
				break
			}
		}
	}
	return 0
}

func (s *site) awaitLinkDown(t *testing.T, says ...string) {
	t.Helper()
	eventually(t, usual, fmt.Sprintf("the node is NotReady and says %q", says), func() error {
		c, err := s.readyCondition(t.Context())
		if err != nil {
			return err
		}
		if c.Status == v1.ConditionTrue || c.Reason != "HostLinkDown" {
			return fmt.Errorf("%s, %s: %s", c.Status, c.Reason, c.Message)
		}
		for _, text := range says {
			if !strings.Contains(c.Message, text) {
				return fmt.Errorf("it says %s", c.Message)
			}
		}
		return nil
	})
}

// awaitLinkLog waits for a line in the node's log that has all of the texts.
func (s *site) awaitLinkLog(t *testing.T, says ...string) {
	t.Helper()
	eventually(t, usual, fmt.Sprintf("a line in the node's log with %q", says), func() error {
		log, err := os.ReadFile(s.nodeProc.LogFile())
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(log)) {
			found := strings.Contains(line, "link cannot be made")
			for _, text := range says {
				found = found && strings.Contains(line, text)
			}
			if found {
				return nil
			}
		}
		return errNotYet
	})
}

// TestHostWithNothingButSSHAndContainerd becomes a node, stays one when its connection breaks, and has nothing of ours running
// on it afterwards.
func TestHostWithNothingButSSHAndContainerd(t *testing.T) {
	t.Parallel()
	s := require(t).newSite("ferry")
	s.sshUser = testbed.SSHUser
	s.startFor(t)
	k := on(t, s)
	held := k.hold(k.create(k.pod("aboard", `trap "exit 0" TERM; echo running; sleep 1d & while :; do wait; done`)))
	requireUsable := func() {
		t.Helper()
		eventually(t, usual, "its log", func() error {
			if got, err := k.tryKubectl(nil, "logs", "aboard"); got != "running\n" {
				return fmt.Errorf("%q, %w", got, err)
			}
			return nil
		})
		if got := k.kubectl("exec", "aboard", "--", "hostname"); got != "aboard\n" {
			t.Errorf("exec: %q", got)
		}
		k.requireUnchanged(held)
	}
	requireUsable()

	t.Run("the connection is cut", func(t *testing.T) {
		session := s.sshSession(t)
		if session == 0 {
			t.Fatal("no process of sshd carries the connection")
		}
		must(t, syscall.Kill(session, syscall.SIGKILL))
		eventually(t, usual, "another connection", func() error {
			if next := s.sshSession(t); next == 0 || next == session {
				return errNotYet
			}
			return nil
		})
		must(t, s.awaitReady(t.Context()))
		requireUsable()
	})
	t.Run("the connection is cut silently", func(t *testing.T) {
		must(t, s.host.Disconnect(t.Context()))
		s.awaitLinkDown(t, "ssh://"+testbed.SSHUser+"@"+s.host.Address().String()+":22")
		if _, err := k.tryKubectl(nil, "logs", "aboard"); err == nil || !strings.Contains(err.Error(), "ssh://") {
			t.Errorf("logs without a connection: %v", err)
		}
		must(t, s.host.Reconnect(t.Context()))
		must(t, s.awaitReady(t.Context()))
		requireUsable()
	})
	t.Run("the node stops", func(t *testing.T) {
		must(t, s.nodeProc.Stop(t.Context()))
		eventually(t, usual, "the end of what ran on the host", func() error {
			if pids := s.hostProcesses(t); len(pids) > 0 {
				return fmt.Errorf("there are still %v", pids)
			}
			return nil
		})
		if running := s.running(t, held.pod.UID); running["main"] != held.running["main"] {
			t.Errorf("the pod did not live on: %v, was %v", running, held.running)
		}
		files, err := s.host.Exec(t.Context(), "find", s.cacheDir(), "-type", "f")
		must(t, err)
		if !strings.HasSuffix(files, "/tombolo\n") || strings.Count(files, "\n") != 1 {
			t.Errorf("in the cache: %s", files)
		}
		s.restartNode(t)
		must(t, s.awaitReady(t.Context()))
		requireUsable()
		log, err := os.ReadFile(s.nodeProc.LogFile())
		must(t, err)
		if n := strings.Count(string(log), "the program is put on the host"); n != 1 {
			t.Errorf("it was put there %d times", n)
		}
		if !strings.Contains(string(log), "serving a node on standard input and output") {
			t.Error("the host's log is not in the node's")
		}
	})
	t.Run("what is wrong is told", func(t *testing.T) { sshFailures(t, s) })
	t.Run("other ways lead there", func(t *testing.T) { sshWays(t, s) })
}

// sshFailures starts nodes that cannot reach the host of the site.
func sshFailures(t *testing.T, s *site) {
	foreign := filepath.Join(t.TempDir(), "foreign")
	out, err := s.env.cluster.Command(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", foreign).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	public, err := os.ReadFile(foreign + ".pub")
	must(t, err)
	changed := filepath.Join(t.TempDir(), "known_hosts")
	must(t, os.WriteFile(changed, []byte(s.host.Address().String()+" "+string(public)), 0o600))
	address := s.host.Address().String()
	unknown, stranger := *s.ssh, *s.ssh
	unknown.KnownHosts, stranger.KeyFile = changed, foreign
	for _, tc := range []struct {
		name, user string
		ssh        *testbed.SSHServer
		args       []string
		says       []string
	}{
		{"hostkey", testbed.SSHUser, &unknown, nil, []string{s.ssh.Fingerprint, "line 1 of " + changed}},
		{"pinned", testbed.SSHUser, s.ssh, []string{"--host-ssh-host-key=" + strings.TrimSpace(string(public))}, []string{s.ssh.Fingerprint, "not the pinned"}},
		{"login", testbed.SSHUser, &stranger, nil, []string{testbed.SSHUser + "@" + address, "refused the key", "authorized_keys"}},
		{"sudo", testbed.SSHGuest, s.ssh, nil, []string{"sudo", testbed.SSHGuest + " ALL=(root) NOPASSWD: ALL"}},
		{"root", testbed.SSHGuest, s.ssh, []string{"--host-ssh-sudo=false"}, []string{"--host-ssh-sudo"}},
		{"second", testbed.SSHUser, s.ssh, nil, []string{"in use by another tombolo process (pid "}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			lost := &site{env: s.env, name: "adrift-" + tc.name, host: s.host, ssh: tc.ssh, sshUser: tc.user, nodeArgs: tc.args}
			lost.startLost(t)
			lost.awaitLinkLog(t, tc.says...)
			if c, err := lost.readyCondition(t.Context()); err == nil && c.Status == v1.ConditionTrue {
				t.Errorf("the node is Ready: %+v", c)
			}
		})
	}
}

// sshWays starts nodes that reach the host of the site in other ways: by way of a jump host, and with other identities.
func sshWays(t *testing.T, s *site) {
	dir, err := os.MkdirTemp("", "ssh") //nolint:usetesting // the path of a socket must be short
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	run := func(env, name string, args ...string) {
		t.Helper()
		cmd := s.env.cluster.Command(t.Context(), name, args...)
		cmd.Env = append(cmd.Env, env)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
	}
	// A key that the host does not know, but a certificate that it trusts.
	stranger := filepath.Join(dir, "key")
	run("", "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", stranger)
	run("", "ssh-keygen", "-q", "-s", s.ssh.AuthorityFile, "-I", "e2e", "-n", "root", "-V", "+1h", stranger+".pub")

	socket := filepath.Join(dir, "agent")
	agent, err := s.env.cluster.Run(s.name+"-ssh-agent", s.env.cluster.Command(context.WithoutCancel(t.Context()), "ssh-agent", "-D", "-a", socket))
	must(t, err)
	t.Cleanup(func() { must(t, agent.Kill()) })
	eventually(t, usual, "the agent listens", func() error {
		_, err := os.Stat(socket)
		return err
	})
	run("SSH_AUTH_SOCK="+socket, "ssh-add", "-q", s.ssh.KeyFile)

	// The jump host is the host itself, which is as good as any; its key is pinned at the end.
	jump := []string{"--host-ssh-jump=" + testbed.SSHUser + "@" + s.host.Address().String(), "--host-ssh-host-key=" + s.ssh.Fingerprint}
	for _, tc := range []struct {
		name string
		args []string
	}{
		{"jump", jump},
		{"agent", []string{"--host-ssh-key-file=", "--host-ssh-agent=" + socket}},
		{"certificate", []string{"--host-ssh-key-file=" + stranger, "--host-ssh-cert-file=" + stranger + "-cert.pub"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			other := &site{env: s.env, name: "detour-" + tc.name, host: s.host, ssh: s.ssh, sshUser: "root", nodeArgs: append(tc.args,
				"--root-dir="+s.rootDir()+"-"+tc.name, "--pod-logs-dir="+s.logsDir()+"-"+tc.name)}
			other.startLost(t)
			must(t, other.awaitReady(t.Context()))
		})
	}
}

// startLost starts a further node for a host, and removes it after the test.
func (s *site) startLost(t *testing.T) {
	t.Helper()
	must(t, s.prepareNode(t.Context()))
	must(t, s.startNode())
	t.Cleanup(func() {
		if err := s.nodeProc.Kill(); err != nil {
			t.Error(err)
		}
		_ = s.env.cluster.Client().CoreV1().Nodes().Delete(context.Background(), s.name, metav1.DeleteOptions{})
		if t.Failed() {
			t.Logf("log of tombolo node: %s\n%s", s.nodeProc.LogFile(), s.nodeProc.LogTail(10))
		}
	})
}
