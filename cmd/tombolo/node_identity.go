// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tombolo-dev/tombolo/provider"
)

// identityOptions are the flags that say who the node is and where its certificates come from. Where the kubelet has a flag of
// the same meaning, the name is the kubelet's.
type identityOptions struct {
	bootstrapKubeconfig string
	certDir             string
	rotateServing       bool
	clientCAFromCluster bool
	metricsAddress      string
}

func (o *identityOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.bootstrapKubeconfig, "bootstrap-kubeconfig", "", "file that says how to reach the API server with an identity that may ask for the node's own; without it and --kubeconfig, the service account of the pod this runs in")
	fs.StringVar(&o.certDir, "cert-dir", "", "directory in which certificates that the cluster issued are kept; without it, each start asks for new ones")
	fs.BoolVar(&o.rotateServing, "rotate-server-certificates", false, "ask the cluster for the serving certificate of the kubelet API and renew it; somebody has to approve it, and until then one is served that nobody can verify")
	fs.BoolVar(&o.clientCAFromCluster, "client-ca-from-cluster", false, "accept the client certificates that the API server accepts, by the ConfigMap kube-system/extension-apiserver-authentication, which the node must be allowed to read")
	fs.StringVar(&o.metricsAddress, "metrics-address", "", "address and port for Prometheus and for probes (/metrics, /healthz, /readyz) in the clear, such as 127.0.0.1:8472; off by default")
}

// check finds what does not go together.
func (o *identityOptions) check(n *nodeOptions) []error {
	var problems []error
	if o.bootstrapKubeconfig != "" && n.kubeconfig != "" {
		problems = append(problems, errors.New("--bootstrap-kubeconfig is for getting an identity, and --kubeconfig has one: give one of them"))
	}
	if o.certDir != "" && !filepath.IsAbs(o.certDir) {
		problems = append(problems, fmt.Errorf("--cert-dir %q: give an absolute path", o.certDir))
	}
	if o.rotateServing && n.certFile != "" {
		problems = append(problems, errors.New("--rotate-server-certificates gets a serving certificate, and --tls-cert-file has one: give one of them"))
	}
	if o.clientCAFromCluster && n.clientCAFile != "" {
		problems = append(problems, errors.New("--client-ca-from-cluster finds the authorities of clients, and --client-ca-file has them: give one of them"))
	}
	if o.metricsAddress != "" && !isListenAddress(o.metricsAddress) {
		problems = append(problems, fmt.Errorf("--metrics-address %q: give address:port or :port, with a port up to 65535", o.metricsAddress))
	}
	return problems
}

// restConfig reads how the API server is reached. If bootstrap is set, the identity is only good for asking for another one.
func (o *nodeOptions) restConfig() (config *rest.Config, bootstrap bool, err error) {
	flag, path := "kubeconfig", o.kubeconfig
	if o.identity.bootstrapKubeconfig != "" {
		flag, path = "bootstrap-kubeconfig", o.identity.bootstrapKubeconfig
	}
	if path == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, false, usageError{fmt.Errorf("--kubeconfig is empty and this is no pod of a cluster: give a kubeconfig file, or --bootstrap-kubeconfig: %w", err)}
		}
		return config, true, nil
	}
	config, err = clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, false, usageError{fmt.Errorf("--%s %q: %w", flag, path, err)}
	}
	return config, flag == "bootstrap-kubeconfig", nil
}

// serveHealth serves metrics and the answers to probes until ctx ends, if an address was given. It returns once it listens.
func (o *identityOptions) serveHealth(ctx context.Context, registry *prometheus.Registry, health *provider.Health, logger *slog.Logger) (wait func() error, err error) {
	if o.metricsAddress == "" {
		return func() error { return nil }, nil
	}
	server, err := newMetricsServer(ctx, o.metricsAddress, registry)
	if err != nil {
		return nil, err
	}
	server.handle("GET /healthz", health.Live)
	server.handle("GET /readyz", health.Ready)
	logger.Info("Serving metrics and probes", "address", server.address())
	served := make(chan error, 1)
	go func() { served <- server.serve(ctx) }()
	return func() error { return <-served }, nil
}
