// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

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

The node says that it is not ready, with the reason HostLinkDown, while the host cannot be reached. It is never deleted.`,
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
	return cmd
}

// run is the node until ctx ends.
func (o *nodeOptions) run(ctx context.Context, p *process, s *nodeSettings, logger *slog.Logger) error {
	config, err := o.restConfig()
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	logger.Info("Starting node", "version", buildVersion(), "node", o.name, "host", s.target.String(), "api_server", config.Host)
	err = boundedStop(ctx, logger, func() error {
		return provider.Run(ctx, provider.Options{
			Name: o.name, Labels: o.labels, Taints: s.taints, MaxPods: o.maxPods, MaxParallelStarts: o.maxParallelStarts, NoPodCgroups: !o.cgroupsPerQOS,
			Kubernetes: config, ClusterID: o.clusterID, ClusterDNS: o.clusterDNS, ClusterDomain: o.clusterDomain,
			Host: hostconn.Options{
				Target: o.host, Files: o.hostFiles, ServerName: o.serverName, RootDir: o.rootDir, PodLogsDir: o.podLogsDir,
				SSH: s.ssh,
			},
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

// restConfig reads how the API server is reached.
func (o *nodeOptions) restConfig() (*rest.Config, error) {
	if o.kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, usageError{fmt.Errorf("--kubeconfig is empty and this is no pod of a cluster: give a kubeconfig file: %w", err)}
		}
		return config, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return nil, usageError{fmt.Errorf("--kubeconfig %q: %w", o.kubeconfig, err)}
	}
	return config, nil
}
