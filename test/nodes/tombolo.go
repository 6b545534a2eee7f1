// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
)

const linkPort = "8470"

// startTombolo starts tombolo node, and tombolo host if the kind has one.
func (n *Node) startTombolo(ctx context.Context, binary string) error {
	args, err := n.tomboloArguments()
	if err != nil {
		return err
	}
	h, lasting := n.Host, context.WithoutCancel(ctx)
	if n.Kind == TomboloUnix {
		args = append(args, "--host", "unix://"+h.ContainerdSocket(), "--root-dir", n.rootDir(), "--pod-logs-dir", n.logsDir())
		p, err := h.Run("tombolo-node", h.Command(lasting, binary, args...))
		if err != nil {
			return err
		}
		n.Processes = append(n.Processes, p)
		return nil
	}

	link, err := n.linkFiles(ctx, binary)
	if err != nil {
		return err
	}
	address := net.JoinHostPort(h.Address().String(), linkPort)
	host, err := h.Run("tombolo-host", h.Command(lasting, binary, "host", "--containerd", h.ContainerdSocket(),
		"--root", n.rootDir(), "--pod-logs-dir", n.logsDir(), "--listen", address,
		"--tls-cert-file", link("host-"+n.Name()+".crt"), "--tls-private-key-file", link("host-"+n.Name()+".key"),
		"--client-ca-file", link("ca.crt")))
	if err != nil {
		return err
	}
	n.Processes = append(n.Processes, host)
	args = append(args, "--host", "tls://"+address, "--host-ca-file", link("ca.crt"),
		"--host-cert-file", link("node-"+n.Name()+".crt"), "--host-key-file", link("node-"+n.Name()+".key"))
	node, err := n.cluster.Run(n.Name()+"-tombolo-node", n.cluster.Command(lasting, binary, args...))
	if err != nil {
		return err
	}
	n.Processes = append(n.Processes, node)
	return nil
}

func (n *Node) rootDir() string { return filepath.Join(n.Host.Dir(), "tombolo") }
func (n *Node) logsDir() string { return filepath.Join(n.Host.Dir(), "pod-logs") }

// tomboloArguments are the flags of tombolo node that do not depend on the link.
func (n *Node) tomboloArguments() ([]string, error) {
	c := n.cluster
	kubeconfig, err := c.NodeKubeconfig(n.Name())
	if err != nil {
		return nil, err
	}
	address, port := n.Host.Address(), 10250
	if n.Kind == TomboloTLS { // on this side, where it shares an address with others
		address = c.Address()
		if port, err = c.FreePort(); err != nil {
			return nil, err
		}
	}
	cert, key, err := c.ServingCert(n.Name(), address)
	if err != nil {
		return nil, err
	}
	return []string{
		"node", "--name", n.Name(), "--kubeconfig", kubeconfig, "--node-ip", address.String(), "--port", strconv.Itoa(port),
		"--tls-cert-file", cert, "--tls-private-key-file", key, "--client-ca-file", c.CAFile(), "--register-with-taints=",
		"--cluster-domain", "cluster.local", "--max-pods", maxPods,
	}, nil
}

// linkFiles makes certificates for both ends of the link and returns where they are by name.
func (n *Node) linkFiles(ctx context.Context, binary string) (func(name string) string, error) {
	dir := filepath.Join(n.Host.Dir(), "link")
	for _, args := range [][]string{
		{"pki", "init", "--dir", dir},
		{"pki", "host", "--dir", dir, "--name", n.Name(), "--address", n.Host.Address().String()},
		{"pki", "node", "--dir", dir, "--name", n.Name()},
	} {
		if out, err := n.cluster.Command(ctx, binary, args...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("tombolo %v: %w\n%s", args, err, out)
		}
	}
	return func(name string) string { return filepath.Join(dir, name) }, nil
}
