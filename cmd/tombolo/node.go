// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/tombolo-dev/tombolo/provider"
	"github.com/tombolo-dev/tombolo/provider/hostconn"
	"github.com/tombolo-dev/tombolo/provider/kubeletapi"
)

func newNodeCommand(p *process) *cobra.Command {
	o := &nodeOptions{}
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Register a host as a node and run its pods",
		Long: `Registers the machine behind --host as a node of the cluster and runs the pods that are scheduled to it in the
machine's containerd. It runs wherever it reaches the API server and the host, and waits for either. Pods live on when it
stops; the next start takes them over.

The node is system:node:<name> towards the API. --kubeconfig gives it that identity; without it, it asks the cluster for a
client certificate, with the service account of its pod or --bootstrap-kubeconfig, and renews it in time. If nothing in the
cluster approves such requests by itself, the log names the request: kubectl certificate approve NAME.

The node says that it is not ready, with the reason HostLinkDown, while the host cannot be reached. It is never deleted.`,
		Example: `  # a tombolo host at the other end of a link with certificates
  tombolo node --name edge-1 --bootstrap-kubeconfig bootstrap.kubeconfig --cert-dir /var/lib/tombolo-node \
    --host tls://192.0.2.10:8470 --host-ca-file ca.crt --host-cert-file node-edge-1.crt --host-key-file node-edge-1.key

  # a machine with an SSH server and containerd
  tombolo node --name edge-1 --kubeconfig node.kubeconfig --host ssh://root@192.0.2.10 \
    --host-ssh-known-hosts known_hosts --host-ssh-key-file id_ed25519

  # this machine
  tombolo node --name here --kubeconfig node.kubeconfig --host unix:///run/containerd/containerd.sock

  # settings from a file
  tombolo node --config /etc/tombolo/node.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			settings, err := o.validate()
			if err != nil {
				return err
			}
			logger, err := o.log.logger(p.stderr)
			if err != nil {
				return err
			}
			return o.run(cmd.Context(), p, settings, logger)
		},
	}
	o.addFlags(cmd.Flags())
	p.takesFile(cmd, kindNode, func() error {
		_, err := o.validate()
		return err
	})
	return cmd
}

// run is the node until ctx ends.
func (o *nodeOptions) run(ctx context.Context, p *process, s *nodeSettings, logger *slog.Logger) (err error) {
	config, bootstrap, err := o.restConfig()
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	health := &provider.Health{}
	serving, stop := context.WithCancel(ctx)
	served, err := o.identity.serveHealth(serving, registry, health, logger)
	if err != nil {
		stop()
		return err
	}
	defer func() { stop(); err = errors.Join(err, served()) }()
	logger.Info("Starting node", "version", buildVersion(), "node", o.name, "host", s.target.String(), "api_server", config.Host)
	err = boundedStop(ctx, logger, func() error {
		return provider.Run(ctx, provider.Options{
			Name: o.name, Labels: o.labels, Taints: s.taints, MaxPods: o.maxPods, MaxParallelStarts: o.maxParallelStarts,
			MaxParallelPulls: o.maxParallelPulls, SeccompProfileDir: o.seccompDir, NoPodCgroups: !o.cgroupsPerQOS,
			Kubernetes: config, Bootstrap: bootstrap, CertDir: o.identity.certDir, Health: health,
			IssuedServing: o.identity.rotateServing, ClientCAFromCluster: o.identity.clientCAFromCluster,
			ClusterID: o.clusterID, ClusterDNS: o.clusterDNS, ClusterDomain: o.clusterDomain,
			Host:       o.hostOptions(p, s.ssh, logger),
			StaticPods: s.static, UnsafeSysctls: o.unsafeSysctls,
			MaxPIDs: max(o.maxPIDs, 0), LimitedSwap: o.swapBehavior == limitedSwap,
			Listen: o.listen(), NodeIP: s.nodeIP,
			TLS:     kubeletapi.TLSOptions{CertFile: o.certFile, KeyFile: o.keyFile, ClientCAFile: o.clientCAFile},
			Version: buildVersion(), Clock: p.clock, Logger: logger, Registry: registry,
		})
	})
	if err == nil {
		logger.Info("Stopped, pods were left alone", "node", o.name)
	}
	return err
}

// hostOptions say how the host is reached.
func (o *nodeOptions) hostOptions(p *process, ssh hostconn.SSH, logger *slog.Logger) hostconn.Options {
	return hostconn.Options{
		Target: o.host, Files: o.hostFiles, ServerName: o.serverName, Listen: o.hostListen,
		Join: hostconn.Join{Dir: o.join.dir, Validity: o.join.validity}, RootDir: o.rootDir, PodLogsDir: o.podLogsDir,
		SSH: ssh, Version: buildVersion(), Clock: p.clock, Logger: logger,
	}
}
