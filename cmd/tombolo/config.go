// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tombolo-dev/tombolo/cmd/tombolo/settings"
)

// Kinds of files of settings.
const (
	kindNode = "NodeConfig"
	kindHost = "HostConfig"
)

// configured is a sub-command that takes a file of settings.
type configured struct {
	cmd  *cobra.Command
	kind string
	// validate finds everything that is wrong with the values of the flags.
	validate func() error
}

// takesFile gives a sub-command that has all its flags the flag for a file of settings.
func (p *process) takesFile(cmd *cobra.Command, kind string, validate func() error) {
	cmd.Flags().String("config", "", "file of settings, a "+kind+"; 'tombolo config default' writes one")
	p.configured = append(p.configured, configured{cmd, kind, validate})
}

// applySettings gives the flags of a sub-command that are not on the command line their values from the environment and from
// the file of settings, if it takes one.
func (p *process) applySettings(cmd *cobra.Command) error {
	i := slices.IndexFunc(p.configured, func(c configured) bool { return c.cmd == cmd })
	if i < 0 {
		origins, problems := settings.Apply(cmd.Flags(), settings.Sources{LookupEnv: p.lookupEnv})
		p.origins = origins
		return usage(problems)
	}
	path, err := cmd.Flags().GetString("config")
	if name := settings.EnvName("config"); err == nil && !cmd.Flags().Changed("config") {
		path, _ = p.lookupEnv(name)
	}
	if path == "" {
		return p.applyFile(p.configured[i], nil)
	}
	file, err := settings.Read(path)
	if err != nil {
		return p.withOthers(p.configured[i], errors.New(prefixLines("--config: ", err)))
	}
	return p.applyFile(p.configured[i], file)
}

// applyFile does so with a file, which may be nil, and reports everything that is wrong at once. What is right by itself is
// checked later, by the sub-command.
func (p *process) applyFile(c configured, file *settings.File) error {
	if file != nil && file.Kind() != c.kind {
		return p.withOthers(c, fmt.Errorf("--config: the file is a %q, and %s takes a %s", file.Kind(), c.cmd.CommandPath(), c.kind))
	}
	origins, problems := settings.Apply(c.cmd.Flags(), settings.Sources{File: file, LookupEnv: p.lookupEnv})
	p.origins = origins
	if len(problems) == 0 {
		return nil
	}
	return usage(append(problems, c.validate()))
}

// withOthers reports that a file cannot be used, together with what is wrong with the environment. What is missing may be in the
// file, and is not reported.
func (p *process) withOthers(c configured, err error) error {
	_, problems := settings.Apply(c.cmd.Flags(), settings.Sources{LookupEnv: p.lookupEnv})
	return usage(append([]error{err}, problems...))
}

// usage is an error of usage if there are problems.
func usage(problems []error) error {
	if err := errors.Join(problems...); err != nil {
		return usageError{err}
	}
	return nil
}

// prefixLines puts a text before each line of an error.
func prefixLines(prefix string, err error) string {
	return prefix + strings.ReplaceAll(err.Error(), "\n", "\n"+prefix)
}

func newConfigCommand(p *process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Write and check files of settings",
		Long: `Writes files of settings with all defaults, and checks files. 'tombolo node --config FILE' takes a NodeConfig, 'tombolo host
--config FILE' a HostConfig. The keys are the names of the flags: --host-ca-file is hostCAFile. A file need not have all of them.`,
		Example: `  tombolo config default node > node.yaml
  tombolo config check node.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newConfigDefaultCommand(p), newConfigCheckCommand(p))
	return cmd
}

func newConfigDefaultCommand(p *process) *cobra.Command {
	return &cobra.Command{
		Use:   "default [node|host]",
		Short: "Write a file with every setting and its default",
		Long:  "Writes a file with every setting of 'tombolo node' or of 'tombolo host', what it means, and its default. Without a name, those of the node.",
		Example: `  tombolo config default node > node.yaml
  tombolo config default host > host.yaml`,
		ValidArgs: []string{"node", "host"},
		RunE: func(_ *cobra.Command, args []string) error {
			name := "node"
			if len(args) > 0 {
				name = args[0]
			}
			i := slices.IndexFunc(p.configured, func(c configured) bool { return c.cmd.Name() == name })
			if i < 0 || len(args) > 1 {
				return usageError{fmt.Errorf("%q: give node or host", strings.Join(args, " "))}
			}
			c := p.configured[i]
			c.cmd.Flags().SortFlags = false
			text, err := settings.Defaults(c.kind, c.cmd.Flags())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(p.stdout, "# Settings of '%s'. What is left out has the default that is here.\n"+
				"# Flags and environment variables (TOMBOLO_...) win over this file. Check it with: tombolo config check FILE\n%s", c.cmd.CommandPath(), text)
			return err
		},
	}
}

func newConfigCheckCommand(p *process) *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE [-- FLAGS]",
		Short: "Check a file of settings",
		Long: `Checks a file of settings, together with the environment and with flags after '--', as the sub-command that takes it would.
Every problem is reported with its line. Files and addresses that it names are not looked at: 'tombolo check' does that.`,
		Example: `  tombolo config check /etc/tombolo/node.yaml
  tombolo config check /etc/tombolo/node.yaml -- --name edge-1`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("no file: give the path of a file of settings")}
			}
			return p.checkFile(args[0], args[1:])
		},
	}
}

// checkFile checks a file as the sub-command that takes it would, with more flags.
func (p *process) checkFile(path string, flags []string) error {
	file, err := settings.Read(path)
	if err != nil {
		return usageError{err}
	}
	i := slices.IndexFunc(p.configured, func(c configured) bool { return c.kind == file.Kind() })
	if i < 0 {
		return usageError{fmt.Errorf("%s: kind %q is not known: it must be %s (tombolo node) or %s (tombolo host)", path, file.Kind(), kindNode, kindHost)}
	}
	c := p.configured[i]
	if err := c.cmd.ParseFlags(flags); err != nil {
		return usageError{flagError{c.cmd, err}.explain()}
	}
	if more := c.cmd.Flags().Args(); len(more) > 0 {
		return usageError{fmt.Errorf("%q: give one file, and after -- nothing but flags of %s", strings.Join(more, " "), c.cmd.CommandPath())}
	}
	if err := p.applyFile(c, file); err != nil {
		return err
	}
	if err := c.validate(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.stdout, "%s is a %s without problems\n", path, c.kind)
	return err
}
