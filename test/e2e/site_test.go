// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/test/testbed"
)

const (
	linkPort        = "8470"
	hostMetricsPort = "8471"
	// readyTimeout is for a node to become Ready from nothing, on a machine that is busy with tests.
	readyTimeout = 90 * time.Second
)

// site is a node: a remote host, tombolo host on it and tombolo node beside the control plane. The node has its name.
type site struct {
	env  *environment
	name string
	// inProcess sites run tombolo node alone, on the host, with the host part in-process.
	inProcess bool
	// sshUser makes it a site whose host has an SSH server instead of tombolo host: the user who logs in.
	sshUser string
	// reverse sites have a host behind NAT, which connects to the port listen of tombolo node.
	reverse bool
	listen  int
	// joins lets the host of such a site get its certificate by a token.
	joins bool
	// hostArgs and nodeArgs are further arguments of tombolo host and tombolo node.
	hostArgs, nodeArgs []string
	// hostRights is a command that runs tombolo host with less than all rights.
	hostRights []string
	// bootstrap sites get their identity from the cluster, beginning with the serviceAccount in the namespace account. Nobody
	// approves their requests if they are unapproved.
	bootstrap, unapproved bool
	account               string
	serviceAccount        string
	metricsAddress        string
	// hostBinary and nodeBinary are what runs instead of the binary under test.
	hostBinary, nodeBinary string

	host               *testbed.Host
	ssh                *testbed.SSHServer
	connection         *grpc.ClientConn
	runtime            runtimeapi.RuntimeServiceClient
	nodeCommand        []string
	hostProc, nodeProc *testbed.Process
}

func (e *environment) newSite(name string) *site { return &site{env: e, name: name} }

// ownSite starts a site for one test, whose host is removed after it.
func (e *environment) ownSite(t *testing.T, name string, hostArgs ...string) *site {
	t.Helper()
	s := e.newSite(name)
	s.hostArgs = hostArgs
	s.startFor(t)
	return s
}

// startFor starts a site for one test.
func (s *site) startFor(t *testing.T) {
	t.Helper()
	s.closeAfter(t)
	must(t, s.start(t.Context()))
}

// closeAfter ends the site's node and removes its host after the test. Another host may get the address next, to which the node would
// connect.
func (s *site) closeAfter(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if s.nodeProc != nil {
			must(t, s.nodeProc.Kill())
		}
		if err := s.close(); err != nil {
			t.Error(err)
		}
		if s.host != nil {
			must(t, s.host.Remove(context.WithoutCancel(t.Context())))
		}
	})
}

// start brings everything of the site up and waits until the node is Ready.
func (s *site) start(ctx context.Context) error {
	if err := s.startMachine(ctx); err != nil {
		return err
	}
	if err := s.startNode(); err != nil {
		return err
	}
	if s.joins {
		if err := s.join(ctx); err != nil {
			return err
		}
		if err := s.startHost(); err != nil {
			return err
		}
	}
	return s.awaitReady(ctx)
}

// startMachine brings up the host with what runs on it.
func (s *site) startMachine(ctx context.Context) error {
	var err error
	if s.host, err = s.env.cluster.AddHost(ctx, s.name, testbed.HostOptions{BehindNAT: s.reverse}); err != nil {
		return err
	}
	if err := os.MkdirAll(s.marks(), 0o755); err != nil {
		return err
	}
	s.connection, err = grpc.NewClient("unix://"+s.host.ContainerdSocket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	s.runtime = runtimeapi.NewRuntimeServiceClient(s.connection)
	if s.sshUser != "" {
		if s.ssh, err = s.host.StartSSH(ctx); err != nil {
			return err
		}
	}
	if err := s.prepareNode(ctx); err != nil {
		return err
	}
	if !s.inProcess && s.sshUser == "" {
		return s.startHost()
	}
	return nil
}

// prepareNode makes certificates and assembles the command line of tombolo node.
func (s *site) prepareNode(ctx context.Context) error {
	c := s.env.cluster
	address := c.Address()
	if s.inProcess {
		address = s.host.Address()
	}
	identity, err := s.identityFlags(ctx, address)
	if err != nil {
		return err
	}
	port := 10250
	if !s.inProcess { // they share an address with other nodes
		if port, err = c.FreePort(); err != nil {
			return err
		}
	}
	s.nodeCommand = append([]string{
		"node", "--name", s.name, "--node-ip", address.String(), "--port", strconv.Itoa(port), "--register-with-taints=", "-v=4",
	}, identity...)
	if s.inProcess {
		s.nodeCommand = append(s.nodeCommand, "--host", "unix://"+s.host.ContainerdSocket(),
			"--root-dir", s.rootDir(), "--pod-logs-dir", s.logsDir())
		return nil
	}
	if s.sshUser != "" {
		s.nodeCommand = append(append(s.nodeCommand, s.sshArgs()...), s.nodeArgs...)
		return nil
	}
	if s.joins {
		return s.prepareJoining()
	}
	asHost := []string{"pki", "host", "--dir", s.env.pki, "--name", s.name, "--address", s.host.Address().String()}
	way := []string{"--host", s.target()}
	if s.reverse {
		if s.listen, err = c.FreePort(); err != nil {
			return err
		}
		asHost = asHost[:len(asHost)-2]
		way = []string{"--host", s.target(), "--listen", s.listenAddress()}
	}
	for _, args := range [][]string{asHost, {"pki", "node", "--dir", s.env.pki, "--name", s.name}} {
		if err := s.env.tombolo(ctx, args...); err != nil {
			return err
		}
	}
	s.nodeCommand = append(append(s.nodeCommand, way...),
		"--host-ca-file", s.linkFile("ca.crt"), "--host-cert-file", s.linkFile("node-"+s.name+".crt"),
		"--host-key-file", s.linkFile("node-"+s.name+".key"))
	s.nodeCommand = append(s.nodeCommand, s.nodeArgs...)
	return nil
}

// identityFlags say who the node is, and how it shows itself and knows callers.
func (s *site) identityFlags(ctx context.Context, address netip.Addr) ([]string, error) {
	if s.bootstrap {
		return s.bootstrapFlags(ctx)
	}
	c := s.env.cluster
	kubeconfig, err := c.NodeKubeconfig(s.name)
	if err != nil {
		return nil, err
	}
	cert, key, err := c.ServingCert(s.name, address, netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		return nil, err
	}
	return []string{
		"--kubeconfig", kubeconfig, "--tls-cert-file", cert, "--tls-private-key-file", key, "--client-ca-file", c.CAFile(),
	}, nil
}

func (s *site) rootDir() string             { return filepath.Join(s.host.Dir(), "tombolo") }
func (s *site) logsDir() string             { return filepath.Join(s.host.Dir(), "pod-logs") }
func (s *site) linkFile(name string) string { return filepath.Join(s.env.pki, name) }
func (s *site) linkAddress() string         { return net.JoinHostPort(s.host.Address().String(), linkPort) }

// listenAddress is where the host of a reverse site connects to.
func (s *site) listenAddress() string {
	return net.JoinHostPort(s.env.cluster.Address().String(), strconv.Itoa(s.listen))
}

// marks is a folder that is the same on the host and for the test, for files that pods write.
func (s *site) marks() string { return filepath.Join(s.host.Dir(), "marks") }

// startHost starts tombolo host.
func (s *site) startHost() (err error) {
	command := append(slices.Clone(s.hostRights), cmp.Or(s.hostBinary, s.env.binary))
	way := []string{"--listen", s.linkAddress(), "--metrics-address", net.JoinHostPort(s.host.Address().String(), hostMetricsPort)}
	if s.reverse {
		way = []string{"--connect", s.listenAddress()}
	}
	known := []string{"--tls-cert-file", s.linkFile("host-" + s.name + ".crt"), "--tls-private-key-file", s.linkFile("host-" + s.name + ".key"),
		"--client-ca-file", s.linkFile("ca.crt")}
	if s.joins {
		known = nil
	}
	s.hostProc, err = s.host.Run("tombolo-host", s.host.Command(context.Background(), command[0], slices.Concat(command[1:], []string{"host",
		"--containerd", s.host.ContainerdSocket(), "--root", s.rootDir(), "--pod-logs-dir", s.logsDir(),
		"-v=4"}, known, way, s.hostArgs)...))
	return err
}

// startNode starts tombolo node.
func (s *site) startNode() (err error) {
	const program = "tombolo-node"
	binary := cmp.Or(s.nodeBinary, s.env.binary)
	if s.inProcess {
		s.nodeProc, err = s.host.Run(program, s.host.Command(context.Background(), binary, s.nodeCommand...))
	} else {
		s.nodeProc, err = s.env.cluster.Run(s.name+"-"+program, s.env.cluster.Command(context.Background(), binary, s.nodeCommand...))
	}
	return err
}

func (s *site) close() error {
	if s.connection == nil {
		return nil
	}
	return s.connection.Close()
}

// awaitReady waits until the node is Ready.
func (s *site) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		condition, err := s.readyCondition(ctx)
		if err == nil && condition.Status == v1.ConditionTrue {
			return nil
		}
		select {
		case <-s.nodeProc.Done():
			return fmt.Errorf("tombolo node ended: %w; log %s:\n%s", s.nodeProc.Err(), s.nodeProc.LogFile(), s.nodeProc.LogTail(10))
		case <-ctx.Done():
			return fmt.Errorf("node %s is not Ready: %w, condition %+v; log %s:\n%s", s.name, err, condition, s.nodeProc.LogFile(), s.nodeProc.LogTail(10))
		case <-time.After(pollInterval):
		}
	}
}

// readyCondition is the node's condition Ready as the API has it.
func (s *site) readyCondition(ctx context.Context) (v1.NodeCondition, error) {
	node, err := s.env.cluster.Client().CoreV1().Nodes().Get(ctx, s.name, metav1.GetOptions{})
	if err != nil {
		return v1.NodeCondition{}, err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == v1.NodeReady {
			return c, nil
		}
	}
	return v1.NodeCondition{}, errors.New("the node has no condition Ready")
}

// killNode ends tombolo node with SIGKILL.
func (s *site) killNode(t *testing.T) {
	t.Helper()
	must(t, s.nodeProc.Kill())
}

// restartNode starts tombolo node after it was killed.
func (s *site) restartNode(t *testing.T) {
	t.Helper()
	must(t, s.startNode())
}
