// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host/local"
	"github.com/tombolo-dev/tombolo/host/policy"
	"github.com/tombolo-dev/tombolo/host/remote"
	"github.com/tombolo-dev/tombolo/link"
)

const (
	defaultContainerdSocket = "/run/containerd/containerd.sock"
	defaultRootDir          = "/var/lib/tombolo"
	defaultPodLogsDir       = "/var/log/pods" // the kubelet's
	defaultHostListen       = ":8470"
)

const (
	// hostStopTimeout is how long calls that are under way may take to end when the process stops.
	hostStopTimeout = 5 * time.Second
	// hookStopTimeout is how long running hooks may take after that.
	hookStopTimeout = 2 * time.Second
)

// hostOptions are the flags of "tombolo host".
type hostOptions struct {
	containerd     string
	rootDir        string
	podLogsDir     string
	listen         string
	connect        connectOptions
	stdio          bool
	inspect        bool
	files          link.Files
	nodes          []string
	policy         string
	metricsAddress string
	log            logOptions
}

func (o *hostOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.containerd, "containerd", defaultContainerdSocket, "socket of containerd, a path or unix:///path")
	fs.StringVar(&o.rootDir, "root", defaultRootDir, "directory for everything that is kept on this machine")
	fs.StringVar(&o.podLogsDir, "pod-logs-dir", defaultPodLogsDir, "directory of the pods' log directories")
	fs.StringVar(&o.policy, "policy", "", "file that says what pods may do to this machine; without it, everything that a node asks for")
	fs.StringVar(&o.listen, "listen", defaultHostListen, "address and port to serve nodes on")
	o.connect.addFlags(fs)
	fs.BoolVar(&o.stdio, "stdio", false, "serve one node on standard input and output, and end with it: what a node runs over ssh://; without certificates, since who starts it is trusted")
	fs.BoolVar(&o.inspect, "inspect", false, "serve nothing but what this machine and its runtime tell about themselves, beside the process that serves pods (--stdio): what tombolo check runs over ssh://")
	fs.StringVar(&o.files.CertFile, "tls-cert-file", "", "certificate of this host (tombolo pki host)")
	fs.StringVar(&o.files.KeyFile, "tls-private-key-file", "", "key of the certificate")
	fs.StringVar(&o.files.CAFile, "client-ca-file", "", "authority that the certificates of nodes must come from")
	fs.StringSliceVar(&o.nodes, "node-name", nil, "names in the certificates of the nodes that may lead this host, separated by commas (tombolo pki node --name); by default every node of the authority")
	o.files.Names = link.FileNames{CA: "--client-ca-file", Cert: "--tls-cert-file", Key: "--tls-private-key-file"}
	fs.StringVar(&o.metricsAddress, "metrics-address", "", "address and port for Prometheus, such as 127.0.0.1:8471; off by default")
	o.log.addFlags(fs)
}

// validate reports everything that is wrong at once.
func (o *hostOptions) validate() error {
	var problems []error
	o.containerd = strings.TrimPrefix(o.containerd, link.SchemeUnix+"://")
	for _, path := range []struct{ flag, value string }{
		{"containerd", o.containerd}, {"root", o.rootDir}, {"pod-logs-dir", o.podLogsDir},
	} {
		if !filepath.IsAbs(path.value) {
			problems = append(problems, fmt.Errorf("--%s %q: give an absolute path", path.flag, path.value))
		}
	}
	problems = append(problems, o.log.check()...)
	if o.stdio {
		problems = append(problems, o.checkStdio()...)
	} else {
		problems = append(append(problems, o.connect.check(o)...), o.checkServing()...)
	}
	if len(problems) > 0 {
		return usageError{errors.Join(problems...)}
	}
	return nil
}

// checkServing finds what is wrong with the flags for serving on a port.
func (o *hostOptions) checkServing() (problems []error) {
	if o.inspect {
		problems = append(problems, errors.New("--inspect is for --stdio: give both or neither"))
	}
	for _, file := range []struct{ flag, value, remedy string }{
		{"tls-cert-file", o.files.CertFile, "make one with: tombolo pki host"},
		{"tls-private-key-file", o.files.KeyFile, "it is made together with the certificate"},
		{"client-ca-file", o.files.CAFile, "it is ca.crt of: tombolo pki init"},
	} {
		if file.value == "" {
			problems = append(problems, fmt.Errorf("--%s is empty: %s", file.flag, file.remedy))
		}
	}
	if slices.ContainsFunc(o.nodes, func(name string) bool { return name == "" || name != strings.TrimSpace(name) }) {
		problems = append(problems, fmt.Errorf("--node-name %q: a name is empty or has a blank beside it: give the names of nodes, separated by commas", strings.Join(o.nodes, ",")))
	}
	for _, address := range []struct{ flag, value string }{{"listen", o.listen}, {"metrics-address", o.metricsAddress}} {
		if address.flag == "metrics-address" && address.value == "" {
			continue
		}
		if !isListenAddress(address.value) {
			problems = append(problems, fmt.Errorf("--%s %q: give address:port or :port, with a port up to 65535", address.flag, address.value))
		}
	}
	return problems
}

// isListenAddress says whether text is address:port. Port 0 is one that the system chooses.
func isListenAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

func newHostCommand(p *process) *cobra.Command {
	o := &hostOptions{}
	cmd := &cobra.Command{
		Use:   "host",
		Short: "Serve this machine's containerd to a node",
		Long: `Runs beside containerd and serves it, and what else of this machine pods need, to nodes that show a certificate of
the given authority, and for one of the names in --node-name if that is given. It starts whether or not containerd is up, and
keeps no state but files below --root. Pods live on when it stops.

With --connect it listens on no port: it connects to its node itself, for machines behind NAT or a firewall that lets nothing
in. One TCP connection carries everything. If it ends, another one is made, for as long as it takes. Without --tls-cert-file
and the like it uses the certificate of 'tombolo host join', and renews it.

With --stdio it serves the one node that started it, over SSH, and ends with it.`,
		Example: `  tombolo host --tls-cert-file host-edge-1.crt --tls-private-key-file host-edge-1.key --client-ca-file ca.crt --node-name edge-1

  # settings from a file
  tombolo host --config /etc/tombolo/host.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			logger, err := o.log.logger(p.stderr)
			if err != nil {
				return err
			}
			return o.run(cmd.Context(), p, logger)
		},
	}
	o.addFlags(cmd.Flags())
	p.takesFile(cmd, kindHost, o.validate)
	cmd.AddCommand(newHostJoinCommand(p))
	return cmd
}

// run serves until ctx ends.
func (o *hostOptions) run(ctx context.Context, p *process, logger *slog.Logger) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	nodes, err := o.access(p, logger, registry)
	if err != nil {
		return err
	}
	rules, err := o.loadPolicy(logger)
	if err != nil {
		return err
	}
	runtime, hangUp, err := o.dialRuntime(p, logger)
	if err != nil {
		return err
	}
	defer hangUp()

	parts := local.Options{
		RootDir:    o.rootDir,
		PodLogsDir: o.podLogsDir,
		Runtime:    cri.NewClient(runtime, cri.ClientOptions{Observer: cri.NewMetrics(registry), Clock: p.clock}),
		Version:    buildVersion(),
		Clock:      p.clock,
		Logger:     logger,
	}
	options := remote.ServerOptions{
		Runtime:     runtime,
		Credentials: nodes.credentials,
		Policy:      rules,
		Version:     buildVersion(),
		Clock:       p.clock,
		Logger:      logger,
		Registerer:  registry,
	}
	if o.inspect {
		if options.Facts, err = local.NewReader(parts); err != nil {
			return err
		}
		return o.serveStdio(ctx, p, remote.NewServer(options), logger)
	}
	machine, err := o.open(ctx, p, parts)
	if err != nil {
		return err
	}
	options.Host, options.Pins, options.Runtime = machine, machine, machine.ObserveStreaming(runtime)
	server := remote.NewServer(options)
	if o.stdio {
		err = o.serveStdio(ctx, p, server, logger)
	} else {
		err = boundedStop(ctx, logger, func() error { return o.serve(ctx, server, nodes, registry, logger) })
	}

	stopping, cancel := context.WithTimeout(context.Background(), hookStopTimeout)
	defer cancel()
	return errors.Join(err, machine.Close(stopping))
}

// dialRuntime prepares a connection to containerd, which may not be up yet, and what ends it.
func (o *hostOptions) dialRuntime(p *process, logger *slog.Logger) (runtime *grpc.ClientConn, hangUp func(), err error) {
	to, err := link.New(link.Options{
		Target: link.Target{Scheme: link.SchemeUnix, Address: o.containerd},
		Clock:  p.clock, Logger: logger.With("link", "containerd"),
	})
	if err != nil {
		return nil, nil, err
	}
	runtime, err = remote.NewConn(remote.ConnOptions{Name: "containerd at " + o.containerd, Dial: to.Dial, Local: true})
	if err != nil {
		return nil, nil, err
	}
	return runtime, func() {
		to.Close()
		_ = runtime.Close()
	}, nil
}

// loadPolicy returns the policy of --policy, nil without one.
func (o *hostOptions) loadPolicy(logger *slog.Logger) (remote.Policy, error) {
	if o.policy == "" {
		return nil, nil
	}
	rules, err := policy.Load(o.policy, policy.Dirs{Pods: filepath.Join(o.rootDir, local.PodsDir), Logs: o.podLogsDir})
	if err != nil {
		return nil, fmt.Errorf("--policy: %w", err)
	}
	logger.Info("pods may do what the policy allows", "policy", o.policy)
	return rules, nil
}

// serve runs the listeners until ctx ends or one of them fails.
func (o *hostOptions) serve(ctx context.Context, server *remote.Server, nodes *access, registry *prometheus.Registry, logger *slog.Logger) error {
	listener, err := nodes.listen(ctx)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	if o.metricsAddress != "" {
		metrics, err := newMetricsServer(ctx, o.metricsAddress, registry)
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		group.Go(func() error { return metrics.serve(ctx) })
		logger.Info("serving metrics", "address", metrics.address())
	}
	begun := logger.With("version", buildVersion(), "address", listener.Addr().String(), "containerd", o.containerd, "root", o.rootDir)
	if o.connect.address != "" {
		begun.Info("connecting to the node")
	} else {
		begun.Info("serving nodes")
	}
	if nodes.keep != nil {
		group.Go(func() error { nodes.keep(ctx); return nil })
	}
	group.Go(func() error { return server.Serve(ctx, listener) })
	err = group.Wait()
	if err == nil {
		logger.Info("stopped, pods were left alone")
	}
	return err
}

// boundedStop runs do, which ends some time after ctx does. A call that hangs in the kernel, for instance on a dead network
// file system, must not keep the process from stopping: it is left behind then and ends with the process.
func boundedStop(ctx context.Context, logger *slog.Logger, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), hostStopTimeout)
	defer cancel()
	select {
	case err := <-done:
		return err
	case <-late.Done():
		logger.Warn("a call does not end, it is left behind", "waited", hostStopTimeout.String())
		return nil
	}
}
