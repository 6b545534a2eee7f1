// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Command testbed starts and stops a control plane and hosts on this machine.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/tombolo-dev/tombolo/test/testbed"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "testbed:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "testbed",
		Short:         "A real control plane and real containerd hosts on this machine, for tests and demos",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	dir := root.PersistentFlags().String("state-dir", filepath.Join(os.TempDir(), "tombolo-testbed-up"), "folder of the testbed")
	root.AddCommand(up(dir), down(dir), clean(dir), env(dir))
	return root
}

func up(dir *string) *cobra.Command {
	var hosts []string
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a testbed that stays until down",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := testbed.Start(cmd.Context(), testbed.Options{StateDir: *dir, Log: cmd.ErrOrStderr(), Detach: true})
			if err != nil {
				return err
			}
			var adding errgroup.Group
			for _, name := range hosts {
				adding.Go(func() error {
					_, err := c.AddHost(cmd.Context(), name, testbed.HostOptions{})
					return err
				})
			}
			if err := adding.Wait(); err != nil {
				return errors.Join(err, c.Stop(context.WithoutCancel(cmd.Context())))
			}
			return printEnv(cmd, c)
		},
	}
	cmd.Flags().StringSliceVar(&hosts, "hosts", []string{"edge-1"}, "names of the hosts to make")
	return cmd
}

func down(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop the testbed of the state folder, keeping its logs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := testbed.Open(*dir)
			if errors.Is(err, fs.ErrNotExist) {
				fmt.Fprintf(cmd.ErrOrStderr(), "no testbed in %s\n", *dir)
				return nil
			}
			if err != nil {
				return err
			}
			return c.Stop(cmd.Context())
		},
	}
}

func clean(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "clean",
		Short: "Remove what a killed testbed left: the one of --state-dir if given, else all abandoned ones among the temporary files",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dirs := []string{*dir}
			if !cmd.Flags().Changed("state-dir") {
				var err error
				if dirs, err = testbed.Abandoned(); err != nil {
					return err
				}
			}
			var failed []error
			for _, d := range dirs {
				fmt.Fprintf(cmd.ErrOrStderr(), "cleaning %s\n", d)
				failed = append(failed, testbed.Clean(cmd.Context(), d, cmd.ErrOrStderr()))
			}
			if !cmd.Flags().Changed("state-dir") {
				failed = append(failed, testbed.CleanOrphans(cmd.Context(), cmd.ErrOrStderr()))
			}
			return errors.Join(failed...)
		},
	}
}

func env(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "env",
		Short: "Print how to reach the testbed, as shell commands",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := testbed.Open(*dir)
			if err != nil {
				return err
			}
			return printEnv(cmd, c)
		},
	}
}

// printEnv prints shell commands, and comments for people, to standard output.
func printEnv(cmd *cobra.Command, c *testbed.Cluster) error {
	out := cmd.OutOrStdout()
	for _, h := range c.Hosts() {
		fmt.Fprintf(out, "# host %s at %s: %s crictl ps\n", h.Name(), h.Address(), h.EnterScript())
	}
	_, err := fmt.Fprintf(out, "export KUBECONFIG=%s\nexport PATH=%s:$PATH\n", c.Kubeconfig(), c.Bin())
	return err
}
