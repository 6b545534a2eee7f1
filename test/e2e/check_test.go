// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host/local"
	"github.com/tombolo-dev/tombolo/host/remote"
	"github.com/tombolo-dev/tombolo/link"
	"github.com/tombolo-dev/tombolo/link/pki"
	"github.com/tombolo-dev/tombolo/provider/check"
	"github.com/tombolo-dev/tombolo/test/testbed"
)

// checked is what one run of tombolo check told.
type checked struct {
	*testing.T
	code   int
	report check.Report
}

// runCheck runs tombolo check with the flags of a node.
func runCheck(t *testing.T, command func(ctx context.Context, name string, args ...string) *exec.Cmd, binary string, args ...string) *checked {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), usual)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := command(ctx, binary, append([]string{"check", "-o", "json"}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	c := &checked{T: t}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		c.code = exit.ExitCode()
	} else {
		must(t, err)
	}
	if err := json.Unmarshal(out.Bytes(), &c.report); err != nil {
		t.Fatalf("exit code %d, %v, standard error:\n%s", c.code, err, errs.String())
	}
	if failed := c.report.Summary.Failed > 0; failed != (c.code == 3) || !failed && c.code != 0 {
		t.Errorf("exit code %d with %+v", c.code, c.report.Summary)
	}
	return c
}

// fine fails the test unless each of the checks found nothing wrong.
func (c *checked) fine(checks ...string) {
	c.Helper()
	for _, name := range checks {
		if !slices.ContainsFunc(c.report.Findings, func(f check.Finding) bool { return f.Check == name }) {
			c.Errorf("%s was not looked at", name)
		}
	}
	for _, f := range c.report.Findings {
		if slices.Contains(checks, f.Check) && f.Status != check.OK {
			c.Errorf("%+v", f)
		}
	}
}

// found fails the test unless a check found what is wrong and said what to do.
func (c *checked) found(name string, status check.Status, message, remedy string) {
	c.Helper()
	if !c.has(name, status, message, remedy) {
		c.Errorf("no finding of %s is %s with %q and %q in:\n%+v", name, status, message, remedy, c.report.Findings)
	}
}

func (c *checked) has(name string, status check.Status, message, remedy string) bool {
	return slices.ContainsFunc(c.report.Findings, func(f check.Finding) bool {
		return f.Check == name && f.Status == status && strings.Contains(f.Message, message) && strings.Contains(f.Remedy, remedy)
	})
}

// machineChecks are fine on the testbed. How full its disk is, and what controllers it has, is left to the machine.
var machineChecks = []string{"link", "versions", "clock", "runtime", "images", "network"}

// mayAll fails the test if a right is missing that the node cannot do without.
func (c *checked) mayAll() {
	c.Helper()
	rights := 0
	for _, f := range c.report.Findings {
		if f.Check == "rights" && f.Status == check.OK {
			rights++
		}
		if f.Check == "rights" && f.Status == check.Failed {
			c.Errorf("%+v", f)
		}
	}
	if rights < 20 {
		c.Errorf("only %d rights were looked at", rights)
	}
}

// TestCheckFindsWhatIsBrokenAndSaysWhatToDo: over TLS, beside a node that runs.
func TestCheckFindsWhatIsBrokenAndSaysWhatToDo(t *testing.T) {
	t.Parallel()
	s := require(t).ownSite(t, "pilot")
	look := func(t *testing.T, more ...string) *checked {
		t.Helper()
		return runCheck(t, s.env.cluster.Command, s.env.binary, append(s.nodeCommand[1:len(s.nodeCommand):len(s.nodeCommand)], more...)...)
	}
	t.Run("nothing", func(t *testing.T) {
		c := look(t)
		c.fine(append(machineChecks, "certificates", "api")...)
		c.mayAll()
	})
	t.Run("an expired certificate", func(t *testing.T) {
		cert, key := s.linkPair(t, func(a *pki.Authority) (*pki.Pair, error) {
			return a.IssueNode("pilot", pki.Lifetime{From: time.Now().Add(-48 * time.Hour), Validity: time.Hour})
		})
		c := look(t, "--host-cert-file", cert, "--host-key-file", key)
		c.found("link", check.Failed, "refused our certificate", "certificate of the node below")
		c.found("certificates", check.Failed, "--host-cert-file "+cert+" (pilot) has expired on", "tombolo pki node")
		c.found("runtime", check.Skipped, "the host is not reached", "")
		c.fine("api")
		c.mayAll()
	})
	t.Run("a certificate of another name", func(t *testing.T) {
		c := look(t, "--host-server-name", "elsewhere.example.com")
		c.found("link", check.Failed, "elsewhere.example.com", "certificate of the host below")
		c.found("certificates", check.Failed, "the certificate of the host (pilot) is not for elsewhere.example.com", "tombolo pki host")
	})
	t.Run("nobody at that port", func(t *testing.T) {
		look(t, "--host", "tls://"+net.JoinHostPort(s.host.Address().String(), "8479")).found("link", check.Failed, "connection refused", "start tombolo host")
	})
	t.Run("missing rights", func(t *testing.T) {
		nobody, err := s.env.cluster.UserKubeconfig("stranger")
		must(t, err)
		c := look(t, "--kubeconfig", nobody)
		c.found("rights", check.Failed, "stranger may not create nodes", "Node,RBAC")
		c.found("api", check.Failed, "is stranger, and the node is system:node:pilot", "--bootstrap-kubeconfig")
		c.fine("link", "runtime")
	})
	t.Run("missing rights to ask", func(t *testing.T) {
		nobody, err := s.env.cluster.UserKubeconfig("asker")
		must(t, err)
		c := look(t, "--kubeconfig", "", "--bootstrap-kubeconfig", nobody)
		c.found("rights", check.Failed, "asker may not create certificatesigningrequests.certificates.k8s.io", "system:node-bootstrapper")
		c.found("rights", check.Warning, "asker may not create certificatesigningrequests/nodeclient", "rbac.create")
	})
	t.Run("no pod network", func(t *testing.T) {
		config := filepath.Join(s.host.Dir(), "cni", "net.d", "10-testbed.conflist")
		content, err := os.ReadFile(config)
		must(t, err)
		must(t, os.Remove(config))
		eventually(t, usual, "the missing network configuration is found", func() error {
			if c := look(t); !c.has("network", check.Failed, "pods get no network: ", "/etc/cni/net.d") {
				return fmt.Errorf("there is %+v", c.report.Findings)
			}
			return nil
		})
		must(t, os.WriteFile(config, content, 0o644))
		eventually(t, usual, "the network is there again", func() error {
			if c := look(t); !c.has("network", check.OK, "", "") {
				return fmt.Errorf("there is %+v", c.report.Findings)
			}
			return nil
		})
	})
	t.Run("no containerd", func(t *testing.T) {
		must(t, s.host.StopContainerd(t.Context()))
		c := look(t)
		c.found("runtime", check.Failed, "the container runtime does not answer", "systemctl status containerd")
		c.found("images", check.Skipped, "", "")
		c.fine("link", "versions", "clock")
		must(t, s.host.StartContainerd(t.Context()))
	})
	must(t, s.awaitReady(t.Context()))
}

// TestCheckDoesNotDisturbANodeThatHasTheDirectories: on the same machine, and over SSH.
func TestCheckDoesNotDisturbANodeThatHasTheDirectories(t *testing.T) {
	t.Parallel()
	s := require(t).newSite("mole")
	s.sshUser = testbed.SSHUser
	s.startFor(t)
	log := func() int {
		data, err := os.ReadFile(s.nodeProc.LogFile())
		must(t, err)
		return strings.Count(string(data), "link is down") + strings.Count(string(data), "Host does not answer")
	}
	before, processes := log(), s.hostProcesses(t)
	runCheck(t, s.env.cluster.Command, s.env.binary, s.nodeCommand[1:]...).fine(machineChecks...)
	c := runCheck(t, s.host.Command, s.env.binary, "unix://"+s.host.ContainerdSocket(), "--root-dir", s.rootDir(), "--pod-logs-dir", s.logsDir())
	c.fine(machineChecks...)
	c.found("rights", check.Skipped, "--kubeconfig", "")
	eventually(t, usual, "only the node's own process is on the host", func() error {
		if now := s.hostProcesses(t); !slices.Equal(now, processes) {
			return fmt.Errorf("there were %v and are %v", processes, now)
		}
		return nil
	})
	if after := log(); after != before {
		t.Errorf("the node lost its link %d times", after-before)
	}
	stranger := slices.Clone(s.nodeCommand[1:])
	stranger[slices.Index(stranger, "--host-ssh-known-hosts")+1] = os.DevNull
	runCheck(t, s.env.cluster.Command, s.env.binary, stranger...).found("link", check.Failed, "", "ssh -v")
}

// ahead is a clock that goes an hour ahead.
type ahead struct{ clock.RealClock }

// Now is an hour later.
func (a ahead) Now() time.Time { return a.RealClock.Now().Add(time.Hour) }

// TestCheckFindsAClockThatIsWrong: of a host whose clock goes ahead.
func TestCheckFindsAClockThatIsWrong(t *testing.T) {
	t.Parallel()
	s := require(t).calm
	s.requireTLS(t)
	cert, key := s.linkPair(t, func(a *pki.Authority) (*pki.Pair, error) {
		return a.IssueHost("ahead", []string{"127.0.0.1"}, pki.Lifetime{From: time.Now(), Validity: 24 * time.Hour})
	})
	certificates, err := link.LoadCertificates(link.Files{CAFile: s.linkFile("ca.crt"), CertFile: cert, KeyFile: key}, nil)
	must(t, err)
	facts, err := local.NewReader(local.Options{
		RootDir: t.TempDir(), PodLogsDir: t.TempDir(), Runtime: cri.NewClient(s.connection, cri.ClientOptions{}), Clock: ahead{},
	})
	must(t, err)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	server := remote.NewServer(remote.ServerOptions{
		Facts: facts, Runtime: s.connection, Credentials: certificates.ServerCredentials(link.ServerOptions{}),
	})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(ctx, listener) })
	defer wg.Wait()
	defer cancel()
	c := runCheck(t, s.env.cluster.Command, s.env.binary, append(s.nodeCommand[1:len(s.nodeCommand):len(s.nodeCommand)], "--host", "tls://"+listener.Addr().String())...)
	c.found("clock", check.Failed, "ahead of this machine's", "timedatectl")
	c.found("versions", check.Warning, "on the host", "the same version on both ends")
	c.fine("link", "runtime")
}

// linkPair writes a certificate of the link's authority and its key to files.
func (s *site) linkPair(t *testing.T, issue func(*pki.Authority) (*pki.Pair, error)) (cert, key string) {
	t.Helper()
	var pems [2][]byte
	for i, name := range []string{"ca.crt", "ca.key"} {
		var err error
		pems[i], err = os.ReadFile(s.linkFile(name))
		must(t, err)
	}
	authority, err := pki.ParseAuthority(pems[0], pems[1])
	must(t, err)
	pair, err := issue(authority)
	must(t, err)
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "pair.crt"), filepath.Join(dir, "pair.key")
	must(t, os.WriteFile(cert, pair.CertificatePEM, 0o600))
	must(t, os.WriteFile(key, pair.KeyPEM, 0o600))
	return cert, key
}
