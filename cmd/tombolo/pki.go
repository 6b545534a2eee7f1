// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tombolo-dev/tombolo/link/pki"
)

const (
	defaultPKIDir            = "tombolo-pki"
	defaultAuthorityValidity = 10 * 365 * 24 * time.Hour
	defaultIssuedValidity    = 365 * 24 * time.Hour
)

// pkiOptions are the flags of the pki sub-commands.
type pkiOptions struct {
	dir       string
	name      string
	addresses []string
	validity  time.Duration
	force     bool
}

func (o *pkiOptions) addFlags(fs *pflag.FlagSet, validity time.Duration) {
	fs.StringVar(&o.dir, "dir", defaultPKIDir, "directory of the authority and of what it issued; made with mode 0700")
	fs.DurationVar(&o.validity, "validity", validity, "how long the certificate is valid from now")
	fs.BoolVar(&o.force, "force", false, "replace files that are there already")
}

func (o *pkiOptions) store() *pki.Store { return pki.NewStore(o.dir, o.force) }

func newPKICommand(p *process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pki",
		Short: "Make the certificates for the link between nodes and hosts",
		Long: `Makes a certificate authority, and certificates of hosts and nodes, as files of one directory.

A host needs ca.crt and its own host-NAME.crt and host-NAME.key, a node ca.crt and its own node-NAME.crt and node-NAME.key.
Keep ca.key where neither of them is.`,
		Example: `  tombolo pki init
  tombolo pki host --name edge-1 --address 192.0.2.10 --address edge-1.example.com
  tombolo pki node --name edge-1`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPKIInitCommand(p), newPKIHostCommand(p), newPKINodeCommand(p))
	return cmd
}

func newPKIInitCommand(p *process) *cobra.Command {
	o := &pkiOptions{}
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make the certificate authority",
		Long:  "Makes the certificate authority that certificates of hosts and nodes come from. Its key stays with you.",
		Example: `  tombolo pki init
  tombolo pki init --dir /root/tombolo-pki --validity 43800h`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			files, err := o.store().Init(o.name, o.lifetime(p))
			return o.report(p, files, err)
		},
	}
	o.addFlags(cmd.Flags(), defaultAuthorityValidity)
	cmd.Flags().StringVar(&o.name, "name", "tombolo", "name of the authority, for people who look at the certificate")
	return cmd
}

func newPKIHostCommand(p *process) *cobra.Command {
	o := &pkiOptions{}
	cmd := &cobra.Command{
		Use:     "host",
		Short:   "Make the certificate of a host",
		Long:    "Makes the certificate with which a host answers its nodes. It has every name and address by which nodes reach it.",
		Example: `  tombolo pki host --name edge-1 --address 192.0.2.10 --address edge-1.example.com`,
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			if o.name == "" {
				return usageError{errors.New("--name is empty: give the host a name, in the form of a DNS name")}
			}
			files, err := o.store().IssueHost(o.name, o.addresses, o.lifetime(p))
			if err := o.report(p, files, err); err != nil || len(o.addresses) > 0 {
				return err
			}
			_, err = fmt.Fprintln(p.stdout, "It has no --address, so the host has to connect to its node: tombolo host --connect.")
			return err
		},
	}
	o.addFlags(cmd.Flags(), defaultIssuedValidity)
	cmd.Flags().StringVar(&o.name, "name", "", "name of the host")
	cmd.Flags().StringSliceVar(&o.addresses, "address", nil, "IP address or DNS name, without a port, by which nodes reach the host; may be repeated, and be left out if it is the host that connects (tombolo host --connect)")
	return cmd
}

func newPKINodeCommand(p *process) *cobra.Command {
	o := &pkiOptions{}
	cmd := &cobra.Command{
		Use:     "node",
		Short:   "Make the certificate with which a node calls its host",
		Long:    "Makes the certificate with which a node calls its host.",
		Example: `  tombolo pki node --name edge-1`,
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			if o.name == "" {
				return usageError{errors.New("--name is empty: give the name of the Kubernetes node")}
			}
			files, err := o.store().IssueNode(o.name, o.lifetime(p))
			return o.report(p, files, err)
		},
	}
	o.addFlags(cmd.Flags(), defaultIssuedValidity)
	cmd.Flags().StringVar(&o.name, "name", "", "name of the Kubernetes node")
	return cmd
}

func (o *pkiOptions) lifetime(p *process) pki.Lifetime {
	return pki.Lifetime{From: p.clock.Now(), Validity: o.validity}
}

// report tells where the files are, or adds to an error what can be done about it.
func (o *pkiOptions) report(p *process, files *pki.Files, err error) error {
	switch {
	case errdefs.IsAlreadyExists(err):
		return fmt.Errorf("%w (--force replaces it)", err)
	case errdefs.IsNotFound(err):
		return fmt.Errorf("%w (make one with: tombolo pki init --dir %s)", err, o.dir)
	case errdefs.IsInvalidArgument(err):
		return usageError{err}
	case err != nil:
		return err
	}
	_, err = fmt.Fprintf(p.stdout, "certificate %s\nkey         %s\n", files.CertFile, files.KeyFile)
	return err
}
