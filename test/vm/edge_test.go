// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tombolo-dev/tombolo/test/testbed"
)

const (
	enableVariable = "TOMBOLO_E2E_VM"
	nodeName       = "edge-vm"
	linkPort       = "8470"
	// usual is the deadline for what takes half a minute on an idle machine, since the processor is made of software.
	usual = 10 * time.Minute
	// podPIDs is how many processes a pod may have.
	podPIDs = 64
	// swapMiB is how much swap the machine has.
	swapMiB = 512
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until check returns nil and fails the test with its last error otherwise.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	begin := time.Now()
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Since(begin) > usual {
			t.Fatalf("%s: not within %v: %v", what, usual, err)
		}
		time.Sleep(pollInterval)
	}
}

// edge is a virtual machine that is a node.
type edge struct {
	*testing.T
	cluster *testbed.Cluster
	machine *Machine
	binary  string

	nodeCommand []string
	node        *testbed.Process
}

// startEdge boots the machine, installs tombolo host there in the way of docs/install-helm.md, and makes a node of it.
func startEdge(t *testing.T) *edge {
	t.Helper()
	if os.Getenv(enableVariable) == "" {
		t.Skipf("an end-to-end test on a virtual machine: run make e2e-vm, or set %s=1 and run as root", enableVariable)
	}
	e := &edge{T: t, cluster: testbed.StartT(t, testbed.Options{Log: os.Stdout})}
	e.binary = filepath.Join(e.cluster.StateDir(), "tombolo")
	build := e.cluster.Command(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", e.binary, "../../cmd/tombolo")
	build.Env = append(build.Env, "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building tombolo: %v\n%s", err, out)
	}
	var err error
	e.machine, err = Start(t.Context(), e.cluster, Options{
		Name: nodeName, Log: os.Stdout, Files: []File{{Path: "/tombolo", Mode: 0o755, Source: e.binary}},
	})
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			e.report()
		}
	})
	e.installHost()
	e.startNode()
	return e
}

// report keeps what the machine has to say.
func (e *edge) report() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := e.machine.Run(ctx, "systemctl --failed --no-pager; journalctl --no-pager --boot")
	file := filepath.Join(e.cluster.LogDir(), nodeName+"-journal.log")
	err = errors.Join(err, os.WriteFile(file, []byte(out), 0o644))
	e.Logf("journal of the machine: %s (%v), console: %s", file, err, e.machine.ConsoleFile())
	for _, args := range [][]string{{"get", "pods", "-o", "yaml"}, {"get", "events", "--sort-by=.lastTimestamp"}} {
		out, err := e.cluster.Kubectl(ctx, args...)
		e.Logf("$ kubectl %s\n%s%v", strings.Join(args, " "), out, err)
	}
}

// on runs a script on the machine.
func (e *edge) on(script string) string {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), usual)
	defer cancel()
	out, err := e.machine.Run(ctx, script)
	must(e.T, err)
	return strings.TrimSpace(out)
}

// pki is the folder of the link's certificates.
func (e *edge) pki(name string) string { return filepath.Join(e.cluster.StateDir(), "link", name) }

// installHost does what docs/install-helm.md says, and gives the machine swap.
func (e *edge) installHost() {
	e.Helper()
	for _, args := range [][]string{
		{"pki", "init", "--dir", e.pki("")},
		{"pki", "host", "--dir", e.pki(""), "--name", nodeName, "--address", e.machine.Address().String()},
		{"pki", "node", "--dir", e.pki(""), "--name", nodeName},
	} {
		if out, err := e.cluster.Command(e.Context(), e.binary, args...).CombinedOutput(); err != nil {
			e.Fatalf("tombolo %v: %v\n%s", args, err, out)
		}
	}
	e.on(fmt.Sprintf("fallocate -l %dM /swap && chmod 600 /swap && mkswap /swap && swapon /swap", swapMiB))
	e.on("install -m 755 " + payloadDir + "/tombolo /usr/local/bin/tombolo")
	for path, source := range map[string]string{
		"/etc/tombolo/ca.crt": e.pki("ca.crt"), "/etc/tombolo/host.crt": e.pki("host-" + nodeName + ".crt"),
		"/etc/tombolo/host.key":                    e.pki("host-" + nodeName + ".key"),
		"/etc/systemd/system/tombolo-host.service": "../../deploy/systemd/tombolo-host.service",
	} {
		data, err := os.ReadFile(source)
		must(e.T, err)
		mode := os.FileMode(0o644)
		if strings.HasSuffix(path, ".key") {
			mode = 0o600
		}
		must(e.T, e.machine.Put(e.Context(), File{Path: path, Mode: mode, Data: string(data)}))
	}
	e.on("systemctl enable --now tombolo-host")
}

// startNode starts tombolo node beside the control plane and waits until the node is Ready.
func (e *edge) startNode() {
	e.Helper()
	if e.nodeCommand == nil {
		kubeconfig, err := e.cluster.NodeKubeconfig(nodeName)
		must(e.T, err)
		cert, key, err := e.cluster.ServingCert(nodeName, e.cluster.Address())
		must(e.T, err)
		port, err := e.cluster.FreePort()
		must(e.T, err)
		e.nodeCommand = []string{
			"node", "--name", nodeName, "--kubeconfig", kubeconfig, "--node-ip", e.cluster.Address().String(), "--port", strconv.Itoa(port),
			"--tls-cert-file", cert, "--tls-private-key-file", key, "--client-ca-file", e.cluster.CAFile(), "--register-with-taints=",
			"--host", "tls://" + net.JoinHostPort(e.machine.Address().String(), linkPort), "--host-ca-file", e.pki("ca.crt"),
			"--host-cert-file", e.pki("node-" + nodeName + ".crt"), "--host-key-file", e.pki("node-" + nodeName + ".key"),
			"--pod-max-pids", strconv.Itoa(podPIDs), "--memory-swap-behavior=LimitedSwap", "-v=4",
		}
	}
	var err error
	e.node, err = e.cluster.Run("tombolo-node", e.cluster.Command(context.Background(), e.binary, e.nodeCommand...))
	must(e.T, err)
	e.awaitNodeReady()
}

func (e *edge) awaitNodeReady() {
	e.Helper()
	eventually(e.T, "the node is Ready", func() error {
		node, err := e.cluster.Client().CoreV1().Nodes().Get(e.Context(), nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == v1.NodeReady && c.Status == v1.ConditionTrue && len(node.Spec.Taints) == 0 {
				return nil
			}
		}
		return fmt.Errorf("taints %v, conditions %+v", node.Spec.Taints, node.Status.Conditions)
	})
}
