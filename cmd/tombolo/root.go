// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/utils/clock"
)

// Exit codes of the process.
const (
	exitSuccess = 0
	exitFailure = 1
	exitUsage   = 2
)

// envPrefix begins the name of the environment variable that stands in for a flag: --client-ca-file is
// TOMBOLO_CLIENT_CA_FILE. A flag on the command line wins.
const envPrefix = "TOMBOLO_"

// process is what a sub-command may use of the world outside. Nothing else in this package touches the process's own
// streams, environment or clock.
type process struct {
	lookupEnv func(string) (string, bool)
	stdin     io.Reader
	stdout    io.Writer
	stderr    io.Writer
	clock     clock.WithTickerAndDelayedExecution
}

// subcommands is every sub-command, in the order of the help text.
var subcommands = []func(*process) *cobra.Command{
	newNodeCommand,
	newHostCommand,
	newPKICommand,
	newVersionCommand,
}

// usageError marks an error of the command line or the environment, as opposed to one of the work.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// run executes one command line and returns the exit code of the process. A cancelled ctx asks it to stop in order.
func run(ctx context.Context, args []string, lookupEnv func(string) (string, bool), stdin io.Reader, stdout, stderr io.Writer) int {
	p := &process{lookupEnv: lookupEnv, stdin: stdin, stdout: stdout, stderr: stderr, clock: clock.RealClock{}}
	root := newRootCommand(p)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil || (ctx.Err() != nil && errors.Is(err, context.Canceled)) {
		return exitSuccess
	}
	fmt.Fprintf(stderr, "Error: %v\n", err)
	if usage := (usageError{}); errors.As(err, &usage) {
		fmt.Fprintf(stderr, "Run '%s --help' for usage.\n", cmd.CommandPath())
		return exitUsage
	}
	return exitFailure
}

// newRootCommand assembles the command tree.
func newRootCommand(p *process) *cobra.Command {
	root := &cobra.Command{
		Use:   "tombolo",
		Short: "Tie a machine that runs nothing but containerd to a Kubernetes cluster",
		Long: `Tombolo makes a machine that runs nothing but containerd a node of a Kubernetes cluster.

'tombolo host' runs on the machine beside containerd, 'tombolo node' runs wherever the Kubernetes API can be reached, and
'tombolo pki' makes the certificates with which the two know each other.

Every flag can also be set by an environment variable: TOMBOLO_ and the flag's name in capitals with '_' for '-'.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return applyEnv(cmd.Flags(), p.lookupEnv)
		},
	}
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	for _, sub := range subcommands {
		root.AddCommand(sub(p))
	}
	return root
}

// noArgs refuses positional arguments, naming the first.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usageError{fmt.Errorf("%q is neither a sub-command nor a flag of %q", args[0], cmd.CommandPath())}
}

// applyEnv sets each flag that is not on the command line from its environment variable. All problems are reported at
// once.
func applyEnv(flags *pflag.FlagSet, lookupEnv func(string) (string, bool)) error {
	var problems []error
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "help" {
			return
		}
		name := envName(f.Name)
		value, ok := lookupEnv(name)
		if !ok {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			problems = append(problems, fmt.Errorf("environment variable %s (--%s): %w", name, f.Name, err))
		}
	})
	if len(problems) > 0 {
		return usageError{errors.Join(problems...)}
	}
	return nil
}

// envName returns the name of the environment variable that stands in for a flag.
func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(flag))
}
