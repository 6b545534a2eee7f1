// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/link"
	"github.com/tombolo-dev/tombolo/link/join"
)

// maxInvitation bounds what is read from standard input.
const maxInvitation = 4096

// joinedFiles are where a host keeps what it got by joining.
func joinedFiles(rootDir string, clk clock.Clock) join.Files {
	return join.Files{Dir: filepath.Join(rootDir, "link"), Clock: clk}
}

// hostJoinOptions are the flags of "tombolo host join".
type hostJoinOptions struct {
	rootDir string
	name    string
	connectOptions
}

func newHostJoinCommand(p *process) *cobra.Command {
	o := &hostJoinOptions{}
	cmd := &cobra.Command{
		Use:   "join TOKEN@HOST:PORT",
		Short: "Get a certificate from the node, by a token that was made beside it",
		Long: `Makes a key, has the node of the token sign a certificate for it, and keeps both below --root. The token says which authority
the node must show, and is good for once. Afterwards 'tombolo host --connect HOST:PORT' needs no other files, and renews the
certificate by itself. If it is interrupted, it can be run again with the same token.

Users of this machine can see a token on a command line while it runs. '-' reads it from standard input.`,
		Example: `  tombolo host join TOKEN@node.example.com:8470
  tombolo host --connect node.example.com:8470

  # the token from a file that nobody else may read
  tombolo host join - < token`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{errors.New("give TOKEN@host:port as tombolo token create prints it, or - to read it from standard input")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), p, args[0]) },
	}
	cmd.Flags().StringVar(&o.rootDir, "root", defaultRootDir, "directory for everything that is kept on this machine, as for tombolo host")
	cmd.Flags().StringVar(&o.name, "name", "", "name that the certificate must have; by default the one that this host has already, or else any that the node gives")
	cmd.Flags().StringVar(&o.proxy, "proxy", "", "HTTP proxy through which to connect, as for tombolo host")
	return cmd
}

func (o *hostJoinOptions) run(ctx context.Context, p *process, invitation string) error {
	if invitation == "-" {
		text, err := io.ReadAll(io.LimitReader(p.stdin, maxInvitation))
		if err != nil {
			return fmt.Errorf("reading the token: %w", err)
		}
		invitation = string(text)
	}
	var problems []error
	if !filepath.IsAbs(o.rootDir) {
		problems = append(problems, fmt.Errorf("--root %q: give an absolute path", o.rootDir))
	}
	token, endpoint, err := join.ParseInvitation(strings.TrimSpace(invitation))
	if err != nil {
		problems = append(problems, err)
	} else if err := link.CheckConnect(endpoint); err != nil {
		problems = append(problems, err)
	}
	o.address = endpoint
	proxy, err := o.proxyURL(p.lookupEnv)
	problems = append(problems, err)
	if err := errors.Join(problems...); err != nil {
		return usageError{err}
	}
	files := joinedFiles(o.rootDir, p.clock)
	id, err := o.ask(ctx, files, proxy, token)
	if err != nil {
		return fmt.Errorf("joining the node at %s with token %s: %w", endpoint, token.ID, err)
	}
	if err := files.Write(ctx, id); err != nil {
		return fmt.Errorf("keeping what the node gave (run this again with the same token): %w", err)
	}
	_, err = fmt.Fprintf(p.stdout, "This host is %s, by the certificate %s until %s.\nGo on with: tombolo host --connect %s\n",
		id.Name, files.Pair(), id.NotAfter.UTC().Format("2006-01-02 15:04 MST"), endpoint)
	return err
}

// ask has the node sign a certificate. Whatever could keep it from being kept shows before the token is used.
func (o *hostJoinOptions) ask(ctx context.Context, files join.Files, proxy *url.URL, token join.Token) (*join.Identity, error) {
	key, err := files.WishKey(ctx)
	if err != nil {
		return nil, err
	}
	wish, had := join.Wish{Name: o.name, Key: key}, ""
	if former, err := files.Leaf(); err == nil && o.name == "" {
		had = former.Subject.CommonName
		wish.Name = had
	}
	id, err := link.Join(ctx, o.address, proxy, token, wish)
	if had != "" && errors.Is(err, join.ErrRefused) {
		err = fmt.Errorf("%w (this host is %s until now; --name gives it another name)", err, had)
	}
	return id, err
}

// keeper renews the certificate that this host got by joining.
func (o *connectOptions) keeper(files join.Files, certificates *link.Certificates, proxy *url.URL, logger *slog.Logger) *join.Keeper {
	return join.NewKeeper(join.KeeperOptions{Files: files, Logger: logger, Renew: func(ctx context.Context, name string) (*join.Identity, error) {
		return certificates.Renew(ctx, o.address, proxy, name)
	}})
}
