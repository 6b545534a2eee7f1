// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"github.com/tombolo-dev/tombolo/test/testbed"
)

// linkVariable names the kind of link by which the nodes that tests share reach their hosts: tls, which is the default, ssh,
// reverse or unix. A pod must not notice which it is, so the whole suite has to pass with each of them.
const linkVariable = "TOMBOLO_E2E_LINK"

// reachBy says how a site's node reaches its host.
func (s *site) reachBy(kind string) error {
	switch kind {
	case "", "tls":
	case "ssh":
		s.sshUser = testbed.SSHUser
	case "reverse":
		s.reverse = true
	case "unix":
		s.inProcess = true
	default:
		return fmt.Errorf("%s is %q: it may be tls, ssh, reverse or unix", linkVariable, kind)
	}
	return nil
}

// target is how the node names its link.
func (s *site) target() string {
	switch {
	case s.sshUser != "":
		return "ssh://" + s.sshUser + "@" + s.host.Address().String()
	case s.reverse:
		return "reverse://" + s.name
	case s.inProcess:
		return "unix://" + s.host.ContainerdSocket()
	}
	return "tls://" + s.linkAddress()
}

// requireTLS skips a test that is about the host's own port on a site that has none.
func (s *site) requireTLS(t *testing.T) {
	t.Helper()
	if s.inProcess || s.sshUser != "" || s.reverse {
		t.Skipf("about tls links, and %s is set to another kind", linkVariable)
	}
}

// requireHostProcess skips a test that is about two processes where there is one.
func (k *tester) requireHostProcess() {
	k.Helper()
	if k.inProcess {
		k.Skipf("about a link between two processes, and %s is set to unix, where there is one", linkVariable)
	}
}

// hostEndsWithNode says whether a killed node takes the host part along, which cuts a hook that is running. Begun once, it is not
// begun again.
func (s *site) hostEndsWithNode() bool { return s.inProcess || s.sshUser != "" }

// ownAddress is the address by which the host knows itself.
func (s *site) ownAddress() string {
	if s.reverse {
		return testbed.InsideAddress
	}
	return s.host.Address().String()
}

// hostHasMetrics says whether tombolo host has an address for its metrics that the test reaches.
func (s *site) hostHasMetrics() bool { return !s.inProcess && s.sshUser == "" && !s.reverse }

// killHost ends tombolo host with SIGKILL, until reviveHost. Where the node itself starts it over SSH the server and the
// connection end, too, or it would be there again at once.
func (s *site) killHost(t *testing.T) {
	t.Helper()
	if s.sshUser == "" {
		must(t, s.hostProc.Kill())
		return
	}
	pids := s.hostProcesses(t)
	if session := s.sshSession(t); session != 0 {
		pids = append(pids, session)
	}
	must(t, s.ssh.Kill())
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL) // each may end with another
	}
}

// stopHost ends tombolo host in order, where that is not up to the node.
func (k *tester) stopHost() {
	k.Helper()
	if k.sshUser != "" {
		k.killHost(k.T)
		return
	}
	must(k.T, k.hostProc.Stop(k.Context())) // SIGTERM
}

// reviveHost lets the host be reached again after killHost or stopHost.
func (s *site) reviveHost(ctx context.Context) error {
	if s.sshUser != "" {
		return s.ssh.Start(ctx)
	}
	return s.startHost()
}
