// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/tombolo-dev/tombolo/test/testbed"
)

const (
	nodeName = "edge"
	linkPort = "7443"
)

// demo is what was started.
type demo struct {
	cluster *testbed.Cluster
	host    *testbed.Host
	binary  string
	pki     string
}

// start brings up the control plane, the host and both ends of Tombolo.
func start(ctx context.Context, state, binary string) (*demo, error) {
	cluster, err := testbed.Start(ctx, testbed.Options{StateDir: state, Log: os.Stdout, Detach: true})
	if err != nil {
		return nil, err
	}
	host, err := cluster.AddHost(ctx, nodeName, testbed.HostOptions{})
	if err != nil {
		return nil, err
	}
	d := &demo{cluster: cluster, host: host, binary: binary, pki: filepath.Join(state, "pki-link")}
	for _, step := range []func(context.Context) error{d.certificates, d.startHost, d.startNode} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// certificates makes the authority of the link and one certificate for each end.
func (d *demo) certificates(ctx context.Context) error {
	begin := time.Now()
	for _, args := range [][]string{
		{"pki", "init", "--dir", d.pki},
		{"pki", "host", "--dir", d.pki, "--name", nodeName, "--address", d.host.Address().String()},
		{"pki", "node", "--dir", d.pki, "--name", nodeName},
	} {
		out, err := d.cluster.Command(ctx, d.binary, args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("tombolo %v: %w\n%s", args, err, out)
		}
	}
	say(begin, "certificates for the link in %s", d.pki)
	return nil
}

func (d *demo) link(name string) string { return filepath.Join(d.pki, name) }

// startHost starts tombolo host beside containerd, on the remote host.
func (d *demo) startHost(ctx context.Context) error {
	begin := time.Now()
	cmd := d.host.Command(context.WithoutCancel(ctx), d.binary, "host",
		"--containerd", d.host.ContainerdSocket(),
		"--root", filepath.Join(d.host.Dir(), "tombolo"),
		"--pod-logs-dir", filepath.Join(d.host.Dir(), "pod-logs"),
		"--listen", net.JoinHostPort(d.host.Address().String(), linkPort),
		"--tls-cert-file", d.link("host-"+nodeName+".crt"),
		"--tls-private-key-file", d.link("host-"+nodeName+".key"),
		"--client-ca-file", d.link("ca.crt"))
	p, err := d.host.Run("tombolo-host", cmd)
	if err != nil {
		return err
	}
	say(begin, "tombolo host on the remote host, log %s", p.LogFile())
	return nil
}

// startNode starts tombolo node on this side and waits until the node is Ready.
func (d *demo) startNode(ctx context.Context) error {
	begin := time.Now()
	kubeconfig, err := d.cluster.NodeKubeconfig(nodeName)
	if err != nil {
		return err
	}
	address := d.cluster.Address()
	cert, key, err := d.cluster.ServingCert(nodeName, []netip.Addr{address}...)
	if err != nil {
		return err
	}
	port, err := d.cluster.FreePort()
	if err != nil {
		return err
	}
	cmd := d.cluster.Command(context.WithoutCancel(ctx), d.binary, "node",
		"--name", nodeName, "--kubeconfig", kubeconfig,
		"--host", "tls://"+net.JoinHostPort(d.host.Address().String(), linkPort),
		"--host-ca-file", d.link("ca.crt"),
		"--host-cert-file", d.link("node-"+nodeName+".crt"),
		"--host-key-file", d.link("node-"+nodeName+".key"),
		"--node-ip", address.String(), "--port", strconv.Itoa(port),
		"--tls-cert-file", cert, "--tls-private-key-file", key, "--client-ca-file", d.cluster.CAFile(),
		"--register-with-taints=")
	p, err := d.cluster.Run("tombolo-node", cmd)
	if err != nil {
		return err
	}
	if err := d.waitReady(ctx); err != nil {
		return fmt.Errorf("node %s did not become Ready: %w; log %s", nodeName, err, p.LogFile())
	}
	say(begin, "tombolo node is Ready, log %s", p.LogFile())
	return nil
}

// waitReady waits until the node exists and is Ready.
func (d *demo) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		_, err := d.cluster.Kubectl(ctx, "wait", "--for=condition=Ready", "node/"+nodeName, "--timeout=5s")
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(200 * time.Millisecond):
		}
	}
}
