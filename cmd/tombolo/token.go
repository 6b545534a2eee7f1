// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/containerd/errdefs"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tombolo-dev/tombolo/link"
	"github.com/tombolo-dev/tombolo/link/join"
)

const (
	defaultTokenValidity = time.Hour
	maxTokenValidity     = 7 * 24 * time.Hour
)

// tokenOptions are the flags of the token sub-commands.
type tokenOptions struct {
	dir      string
	validity time.Duration
	endpoint string
}

func (o *tokenOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.dir, "join-dir", "", "the directory that tombolo node was given with the same flag")
}

// ledger opens the node's directory.
func (o *tokenOptions) ledger(p *process) (*join.Ledger, error) {
	if o.dir == "" {
		return nil, usageError{errors.New("--join-dir is empty: give the directory that tombolo node has")}
	}
	ledger, err := join.OpenLedger(o.dir, p.clock)
	if err != nil {
		return nil, fmt.Errorf("--join-dir: %w", err)
	}
	return ledger, nil
}

func newTokenCommand(p *process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make the tokens by which a host joins its node, and take back what they gave",
		Long: `A token lets one host get a certificate from its node, once. It is made beside the node, with the directory of its
--join-dir, and in a cluster within the node's pod, which knows the directory.`,
		Example: `  tombolo token create --join-dir /var/lib/tombolo-join --endpoint node.example.com:8470

  # in a cluster
  kubectl -n tombolo exec deployment/shore-tombolo-edge-1 -- tombolo token create --endpoint node.example.com:8470`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTokenCreateCommand(p), newTokenListCommand(p), newTokenDeleteCommand(p), newTokenRevokeCommand(p))
	return cmd
}

func newTokenCreateCommand(p *process) *cobra.Command {
	o := &tokenOptions{}
	cmd := &cobra.Command{
		Use:     "create",
		Short:   "Make a token that is good for once",
		Long:    "Makes a token and prints it or, with --endpoint, the command that the host runs.",
		Example: `  tombolo token create --join-dir /var/lib/tombolo-join --endpoint node.example.com:8470 --validity 10m`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.checkCreate(); err != nil {
				return err
			}
			ledger, err := o.ledger(p)
			if err != nil {
				return err
			}
			token, err := ledger.CreateToken(cmd.Context(), o.validity)
			if err != nil {
				return err
			}
			if o.endpoint == "" {
				_, err = fmt.Fprintln(p.stdout, token.Text())
			} else {
				_, err = fmt.Fprintf(p.stdout, "tombolo host join %s@%s\n", token.Text(), o.endpoint)
			}
			return err
		},
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().DurationVar(&o.validity, "validity", defaultTokenValidity, "how long the token is good, at most 168h")
	cmd.Flags().StringVar(&o.endpoint, "endpoint", "", "host:port at which the host reaches the node; with it, the command for the host is printed")
	return cmd
}

// checkCreate reports everything that is wrong at once.
func (o *tokenOptions) checkCreate() error {
	var problems []error
	if o.validity <= 0 || o.validity > maxTokenValidity {
		problems = append(problems, fmt.Errorf("--validity %s: give more than 0 and at most %s", o.validity, maxTokenValidity))
	}
	if o.endpoint != "" {
		if err := link.CheckConnect(o.endpoint); err != nil {
			problems = append(problems, fmt.Errorf("--endpoint %w", err))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return usageError{err}
	}
	return nil
}

func newTokenListCommand(p *process) *cobra.Command {
	o := &tokenOptions{}
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List tokens and the certificates that are good",
		Long:    "Lists tokens, good and used and expired, and the certificates of hosts that joined.",
		Example: `  tombolo token list --join-dir /var/lib/tombolo-join`,
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			ledger, err := o.ledger(p)
			if err != nil {
				return err
			}
			content, err := ledger.Read()
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(p.stdout, describe(content, p.clock.Now()))
			return err
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

// describe is a table of what is in a ledger.
func describe(content *join.Content, now time.Time) string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "TOKEN\tSTATE\tUNTIL")
	for _, t := range content.Tokens {
		state := "good for once"
		switch {
		case !t.Used.IsZero():
			state = fmt.Sprintf("used %s by %s", t.Used.UTC().Format(time.RFC3339), t.UsedBy)
		case now.After(t.Expires):
			state = "expired"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", t.ID, state, t.Expires.UTC().Format(time.RFC3339))
	}
	_ = table.Flush() // writes to memory
	fmt.Fprintln(table, "\nCERTIFICATE\tGIVEN FOR\tUNTIL")
	for _, c := range content.Good(now) {
		fmt.Fprintf(table, "%s\t%s\t%s\n", c.Serial, c.By, c.NotAfter.UTC().Format(time.RFC3339))
	}
	_ = table.Flush()
	return text.String()
}

func newTokenDeleteCommand(p *process) *cobra.Command {
	o := &tokenOptions{}
	cmd := &cobra.Command{
		Use:     "delete ID",
		Short:   "Take back a token",
		Long:    "Takes back a token that was not used. One that was used is revoked with what it gave: tombolo token revoke.",
		Example: `  tombolo token delete --join-dir /var/lib/tombolo-join 0a1b2c3d`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{errors.New("give the ID of one token (tombolo token list)")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ledger, err := o.ledger(p)
			if err != nil {
				return err
			}
			if err := ledger.DeleteToken(cmd.Context(), args[0]); errdefs.IsNotFound(err) || errdefs.IsFailedPrecondition(err) {
				return usageError{err}
			} else if err != nil {
				return err
			}
			_, err = fmt.Fprintf(p.stdout, "token %s is not good any more\n", args[0])
			return err
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func newTokenRevokeCommand(p *process) *cobra.Command {
	o := &tokenOptions{}
	cmd := &cobra.Command{
		Use:   "revoke",
		Short: "Revoke every certificate of the host, and every token that was not used",
		Long: `The node ends the connection of its host within seconds and takes no other one until the host has joined with a new token. Pods
on the host live on.`,
		Example: `  tombolo token revoke --join-dir /var/lib/tombolo-join`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ledger, err := o.ledger(p)
			if err != nil {
				return err
			}
			certificates, tokens, err := ledger.Revoke(cmd.Context())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(p.stdout, "%d certificates and %d tokens are not good any more\n", certificates, tokens)
			return err
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}
