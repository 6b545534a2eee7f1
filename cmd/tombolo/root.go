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
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/cmd/tombolo/settings"
)

// Exit codes of the process.
const (
	exitSuccess = 0
	exitFailure = 1
	exitUsage   = 2
	// exitFindings is that of a check that found something.
	exitFindings = 3
)

// exitCodes is what the exit codes mean, for people.
var exitCodes = []struct {
	code    int
	meaning string
}{
	{exitSuccess, "success, and an orderly stop by a signal"},
	{exitFailure, "the work failed"},
	{exitUsage, "the command line, the environment or a file of settings is wrong; nothing was done"},
	{exitFindings, "tombolo check found something that failed; warnings alone are a success"},
}

// process is what a sub-command may use of the world outside. Nothing else in this package touches the process's own
// streams, environment or clock.
type process struct {
	lookupEnv func(string) (string, bool)
	stdin     io.Reader
	stdout    io.Writer
	stderr    io.Writer
	clock     clock.WithTickerAndDelayedExecution

	// configured are the sub-commands that take a file of settings, in the order of the help text.
	configured []configured
	// origins are where the values of the sub-command that runs came from.
	origins settings.Origins
}

// subcommands is every sub-command, in the order of the help text.
var subcommands = []func(*process) *cobra.Command{
	newNodeCommand,
	newHostCommand,
	newCheckCommand,
	newPKICommand,
	newTokenCommand,
	newConfigCommand,
	newCompletionCommand,
	newVersionCommand,
}

// usageError marks an error of the command line or the environment, as opposed to one of the work.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// errFindings says that a check found something, which has been told already.
var errFindings = errors.New("something failed")

// run executes one command line and returns the exit code of the process. A cancelled ctx asks it to stop in order.
func run(ctx context.Context, args []string, lookupEnv func(string) (string, bool), stdin io.Reader, stdout, stderr io.Writer) int {
	p := &process{lookupEnv: lookupEnv, stdin: stdin, stdout: stdout, stderr: stderr, clock: clock.RealClock{}}
	root := newRootCommand(p)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil || (ctx.Err() != nil && errors.Is(err, context.Canceled)) {
		return exitSuccess
	}
	if errors.Is(err, errFindings) {
		return exitFindings
	}
	if flag := (flagError{}); errors.As(err, &flag) {
		err = usageError{flag.all(p, args)}
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintf(stderr, "Error: %s\n", p.origins.Explain(line))
	}
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
'tombolo pki' makes the certificates with which the two know each other. 'tombolo token' makes tokens by which a host that connects to
its node gets one.

Every flag can also be set by an environment variable: TOMBOLO_ and the flag's name in capitals with '_' for '-'. 'tombolo node'
and 'tombolo host' read a file of settings, too (--config). Flags win over the environment, and that over the file.

Exit codes:
` + exitCodeTable(),
		Example: `  # on the machine with containerd
  tombolo host --tls-cert-file host-edge-1.crt --tls-private-key-file host-edge-1.key --client-ca-file ca.crt

  # beside the cluster, for a machine with nothing but an SSH server and containerd
  tombolo node --name edge-1 --host ssh://root@192.0.2.10 --host-ssh-known-hosts known_hosts --host-ssh-key-file id_ed25519`,
		Version:       buildVersion(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return p.applySettings(cmd)
		},
	}
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.SetVersionTemplate(newBuild().String() + "\n")
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return flagError{cmd, err} })
	p.configured = nil
	for _, sub := range subcommands {
		root.AddCommand(sub(p))
	}
	completeFlags(root)
	return root
}

// exitCodeTable is the exit codes as lines of a help text.
func exitCodeTable() string {
	var lines []string
	for _, e := range exitCodes {
		lines = append(lines, fmt.Sprintf("  %d  %s", e.code, e.meaning))
	}
	return strings.Join(lines, "\n")
}

// noArgs refuses positional arguments, naming the first.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	problem := fmt.Sprintf("%q is neither a sub-command nor a flag of %q", args[0], cmd.CommandPath())
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	if near := settings.Nearest(args[0], names); near != "" {
		problem += fmt.Sprintf("; did you mean %q?", cmd.CommandPath()+" "+near)
	}
	return usageError{errors.New(problem)}
}
