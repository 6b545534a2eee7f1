// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tombolo-dev/tombolo/provider/check"
)

// defaultCheckTimeout lets a program be put on a host behind a slow link.
const defaultCheckTimeout = time.Minute

// checkFlags are the beginnings of the flags of "tombolo node" that matter to a check. The others are taken too, so that a check
// can have the settings of the node, but are not shown.
var checkFlags = []string{
	"bootstrap-kubeconfig", "cert-dir", "client-ca-", "config", "help", "host", "join-dir", "kubeconfig", "listen", "log-", "name", "output", "pod-logs-dir", "root-dir", "timeout",
	"tls-cert-file", "v",
}

// checkOptions are the flags of "tombolo check": those of the node, and its own.
type checkOptions struct {
	node    nodeOptions
	output  outputFormat
	timeout time.Duration
}

func newCheckCommand(p *process) *cobra.Command {
	o := &checkOptions{}
	cmd := &cobra.Command{
		Use:   "check [LINK]",
		Short: "Check everything that a node needs, and say what to do",
		Long: `Looks at the link to a host, the machine there (clock, container runtime, pod network, control groups, disks), certificates,
and, with a kubeconfig or in a pod of the cluster, at the API and the rights of the node, verb by verb. For everything that is wrong
it says what to do. Nothing is changed, neither on the host nor in the cluster, and a node that runs meanwhile is not disturbed.
Only with reverse:// the node has to be stopped, for its host connects to whoever listens.

It takes the flags, the environment and the file of settings of 'tombolo node', so that what is checked is what the node would use.
LINK stands in for --host.`,
		Example: `  # this machine, as root
  tombolo check unix:///run/containerd/containerd.sock

  tombolo check tls://192.0.2.10:8470 --host-ca-file ca.crt --host-cert-file node-edge-1.crt --host-key-file node-edge-1.key
  tombolo check ssh://root@192.0.2.10 --host-ssh-known-hosts known_hosts --host-ssh-key-file id_ed25519

  # with the settings of a node and its rights in the cluster, for a program
  tombolo check --config /etc/tombolo/node.yaml --kubeconfig node.kubeconfig -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return noArgs(cmd, args[1:])
			}
			if len(args) == 1 {
				return cmd.Flags().Set("host", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(cmd.Context(), p)
		},
	}
	o.addFlags(cmd.Flags())
	p.takesFile(cmd, kindNode, o.validate)
	return cmd
}

func (o *checkOptions) addFlags(fs *pflag.FlagSet) {
	o.node.addFlags(fs)
	fs.VisitAll(func(f *pflag.Flag) {
		f.Hidden = true
		for _, beginning := range checkFlags {
			f.Hidden = f.Hidden && !strings.HasPrefix(f.Name, beginning)
		}
	})
	// What the link logs is in the findings.
	level := fs.Lookup("log-level")
	o.node.log.level, level.DefValue = "error", "error"
	o.output.addFlag(fs)
	fs.DurationVar(&o.timeout, "timeout", defaultCheckTimeout, "how long everything together may take")
}

// validate reports everything that is wrong at once.
func (o *checkOptions) validate() error {
	_, _, problems := o.node.checkHost()
	problems = append(problems, o.node.log.check()...)
	problems = append(problems, o.output.check())
	if o.timeout <= 0 {
		problems = append(problems, fmt.Errorf("--timeout %s: give more than zero", o.timeout))
	}
	return usage(problems)
}

// run checks once. A finding that something failed is an error.
func (o *checkOptions) run(ctx context.Context, p *process) error {
	logger, err := o.node.log.logger(p.stderr)
	if err != nil {
		return err
	}
	_, ssh, _ := o.node.checkHost() // validated
	observed := check.Observe(ctx, check.Options{
		Host:                o.node.hostOptions(p, ssh, logger),
		Node:                o.node.name,
		Files:               o.certificateFiles(),
		Sources:             o.sources(),
		ClientCAFromCluster: o.node.identity.clientCAFromCluster,
		Patience:            o.timeout,
		Clock:               p.clock,
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	report := check.NewReport(observed)
	if o.output.json() {
		err = printJSON(p.stdout, report)
	} else {
		err = printReport(p.stdout, report)
	}
	if err == nil && report.Summary.Failed > 0 {
		err = errFindings
	}
	return err
}

// certificateFiles are the certificates of the kubelet API, if they come from files.
func (o *checkOptions) certificateFiles() (files []check.CertificateFile) {
	if o.node.certFile != "" {
		files = append(files, check.CertificateFile{Flag: "--tls-cert-file", Path: o.node.certFile})
	}
	if o.node.clientCAFile != "" {
		files = append(files, check.CertificateFile{Flag: "--client-ca-file", Path: o.node.clientCAFile, All: true})
	}
	return files
}

// sources are the identities that the node would use. Outside of a cluster and without a kubeconfig there are none.
func (o *checkOptions) sources() []check.Source {
	if path := o.node.kubeconfig; path != "" {
		config, err := clientcmd.BuildConfigFromFlags("", path)
		return []check.Source{{What: "--kubeconfig " + path, Config: config, Err: err, Node: true}}
	}
	asker := check.Source{What: "the service account of this pod"}
	if path := o.node.identity.bootstrapKubeconfig; path != "" {
		asker.What = "--bootstrap-kubeconfig " + path
		asker.Config, asker.Err = clientcmd.BuildConfigFromFlags("", path)
	} else if asker.Config, asker.Err = rest.InClusterConfig(); errors.Is(asker.Err, rest.ErrNotInCluster) {
		return nil
	}
	sources := []check.Source{asker}
	kept := filepath.Join(o.node.identity.certDir, "client-current.pem")
	if own := ownConfig(asker.Config, kept); own != nil && o.node.identity.certDir != "" {
		sources = append(sources, check.Source{What: "--cert-dir " + kept, Config: own, Node: true})
	}
	return sources
}

// ownConfig is a way to the API server with the certificate in a file instead, nil if there is none.
func ownConfig(asker *rest.Config, path string) *rest.Config {
	if asker == nil || !isFile(path) {
		return nil
	}
	own := rest.AnonymousClientConfig(asker)
	own.CertFile, own.KeyFile = path, path
	return own
}

// marks are how the statuses of findings look.
var marks = map[check.Status]string{check.OK: "ok", check.Warning: "WARNING", check.Failed: "FAILED", check.Skipped: "skipped"}

// printReport writes a report for people.
func printReport(w io.Writer, r *check.Report) error {
	var out strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&out, "%-8s %-13s %s\n", marks[f.Status], f.Check, strings.ReplaceAll(f.Message, "\n", "; "))
		if f.Remedy != "" {
			fmt.Fprintf(&out, "%22s -> %s\n", "", f.Remedy)
		}
	}
	fmt.Fprintf(&out, "\n%s: %d ok, %d warnings, %d failed, %d skipped\n", r.Target, r.Summary.OK, r.Summary.Warning, r.Summary.Failed, r.Summary.Skipped)
	_, err := io.WriteString(w, out.String())
	return err
}
