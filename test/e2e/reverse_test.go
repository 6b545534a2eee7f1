// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tombolo-dev/tombolo/link/pki"
	"github.com/tombolo-dev/tombolo/test/testbed"
)

// TestHostBehindNAT connects to its node, is a node's host like any other, and stays one when its connection breaks.
func TestHostBehindNAT(t *testing.T) {
	t.Parallel()
	s := require(t).newSite("lagoon")
	s.reverse, s.hostArgs = true, []string{"--node-name", "lagoon"}
	s.startFor(t)
	k := on(t, s)
	held := k.hold(k.create(k.pod("moored", `trap "exit 0" TERM; echo running; sleep 1d & while :; do wait; done`)))
	requireUsable := func() {
		t.Helper()
		eventually(t, usual, "its log", func() error {
			if got, err := k.tryKubectl(nil, "logs", "moored"); got != "running\n" {
				return fmt.Errorf("%q, %w", got, err)
			}
			return nil
		})
		if got := k.kubectl("exec", "moored", "--", "hostname"); got != "moored\n" {
			t.Errorf("exec: %q", got)
		}
		k.requireUnchanged(held)
	}
	requireUsable()
	t.Run("nothing gets in", func(t *testing.T) {
		dialer := net.Dialer{Timeout: 2 * time.Second}
		for _, port := range []string{"22", linkPort, hostMetricsPort} {
			conn, err := dialer.DialContext(t.Context(), "tcp", net.JoinHostPort(s.host.Address().String(), port))
			if err == nil {
				_ = conn.Close()
				t.Errorf("the host can be reached at port %s", port)
			}
		}
	})
	t.Run("another host wants the name", func(t *testing.T) {
		thief := s.startImpostor(t, "thief", s.name)
		awaitLog(t, thief, "the node refuses this host: another host has this name")
		awaitLog(t, s.nodeProc, "another host has this name")
		stray := s.startImpostor(t, "stray", "elsewhere")
		awaitLog(t, stray, "the node is for reverse://"+s.name)
		awaitLog(t, stray, "has the name elsewhere")
		metrics := k.nodeMetrics()
		for _, reason := range []string{"taken", "name"} {
			if counted := `tombolo_node_host_connections_refused_total{reason="` + reason + `"}`; !strings.Contains(metrics, counted) || strings.Contains(metrics, counted+" 0\n") {
				t.Errorf("%s is not counted", reason)
			}
		}
		requireUsable()
	})
	t.Run("the connection is reset", func(t *testing.T) {
		must(t, s.host.Reject(t.Context()))
		s.awaitLinkDown(t, "reverse://"+s.name)
		if _, err := k.tryKubectl(nil, "logs", "moored"); err == nil || !strings.Contains(err.Error(), "reverse://") {
			t.Errorf("logs without a connection: %v", err)
		}
		must(t, s.host.Accept(t.Context()))
		must(t, s.awaitReady(t.Context()))
		requireUsable()
	})
	t.Run("the connection is cut silently", func(t *testing.T) {
		must(t, s.host.Disconnect(t.Context()))
		s.awaitLinkDown(t, "reverse://"+s.name)
		must(t, s.host.Reconnect(t.Context()))
		must(t, s.awaitReady(t.Context()))
		requireUsable()
	})
	t.Run("either end starts anew", func(t *testing.T) {
		must(t, s.hostProc.Kill())
		must(t, s.startHost())
		awaitLog(t, s.hostProc, "link is up")
		must(t, s.awaitReady(t.Context()))
		requireUsable()
		s.killNode(t)
		s.restartNode(t)
		must(t, s.awaitReady(t.Context()))
		requireUsable()
	})
	t.Run("a proxy is the only way out", func(t *testing.T) {
		must(t, s.hostProc.Kill())
		proxy, address, err := s.host.StartProxy(t.Context(), uint16(s.listen))
		must(t, err)
		for _, tc := range []struct{ user, says string }{
			{"", "it wants to know who asks (407)"},
			{testbed.ProxyUser + ":wrong@", `it does not accept the user \"` + testbed.ProxyUser + `\"`},
			{testbed.ProxyUser + ":" + testbed.ProxyPassword + "@", "link is up"},
		} {
			s.hostArgs = []string{"--proxy", "http://" + tc.user + address}
			must(t, s.startHost())
			awaitLog(t, s.hostProc, tc.says)
			if tc.says != "link is up" {
				must(t, s.hostProc.Kill())
			}
		}
		must(t, s.awaitReady(t.Context()))
		requireUsable()
		must(t, proxy.Kill())
		s.awaitLinkDown(t, "reverse://"+s.name)
		_, _, err = s.host.StartProxy(t.Context(), uint16(s.listen))
		must(t, err)
		must(t, s.awaitReady(t.Context()))
		requireUsable()
		for line := range strings.Lines(s.hostLog(t)) {
			if strings.Contains(line, testbed.ProxyPassword) && !strings.HasPrefix(line, "# ") { // the command line
				t.Errorf("the password of the proxy is in the host's log: %s", line)
			}
		}
	})
}

// startImpostor starts a tombolo host that connects to the site's node, with a certificate of its own, as if the authority had
// been used twice.
func (s *site) startImpostor(t *testing.T, process, name string) *testbed.Process {
	t.Helper()
	read := func(name string) []byte {
		data, err := os.ReadFile(s.linkFile(name))
		must(t, err)
		return data
	}
	authority, err := pki.ParseAuthority(read("ca.crt"), read("ca.key"))
	must(t, err)
	pair, err := authority.IssueHost(name, nil, pki.Lifetime{From: time.Now(), Validity: time.Hour})
	must(t, err)
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "host.crt"), filepath.Join(dir, "host.key")
	must(t, os.WriteFile(cert, pair.CertificatePEM, 0o600))
	must(t, os.WriteFile(key, pair.KeyPEM, 0o600))
	p, err := s.env.cluster.Run(s.name+"-"+process, s.env.cluster.Command(context.Background(), s.env.binary, "host",
		"--containerd", filepath.Join(dir, "none.sock"), "--root", filepath.Join(dir, "root"), "--pod-logs-dir", filepath.Join(dir, "logs"),
		"--connect", s.listenAddress(), "--tls-cert-file", cert, "--tls-private-key-file", key, "--client-ca-file", s.linkFile("ca.crt")))
	must(t, err)
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// awaitLog waits for a line in a process's log.
func awaitLog(t *testing.T, p *testbed.Process, text string) {
	t.Helper()
	eventually(t, usual, fmt.Sprintf("a line with %q in %s", text, p.LogFile()), func() error {
		log, err := os.ReadFile(p.LogFile())
		if err == nil && !strings.Contains(string(log), text) {
			err = errNotYet
		}
		return err
	})
}
