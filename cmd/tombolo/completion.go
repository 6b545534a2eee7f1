// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// shells are those for which there is a script, and what writes it.
var shells = []struct {
	name  string
	write func(root *cobra.Command, p *process) error
}{
	{"bash", func(root *cobra.Command, p *process) error { return root.GenBashCompletionV2(p.stdout, true) }},
	{"zsh", func(root *cobra.Command, p *process) error { return root.GenZshCompletion(p.stdout) }},
	{"fish", func(root *cobra.Command, p *process) error { return root.GenFishCompletion(p.stdout, true) }},
	{"powershell", func(root *cobra.Command, p *process) error { return root.GenPowerShellCompletionWithDesc(p.stdout) }},
}

func newCompletionCommand(p *process) *cobra.Command {
	var names []string
	for _, shell := range shells {
		names = append(names, shell.name)
	}
	return &cobra.Command{
		Use:   "completion " + strings.Join(names, "|"),
		Short: "Write a script that lets a shell complete commands and flags",
		Long:  "Writes a script that lets a shell complete commands, flags and their values.",
		Example: `  # bash, for this session and for all
  source <(tombolo completion bash)
  tombolo completion bash > /etc/bash_completion.d/tombolo

  # zsh
  tombolo completion zsh > "${fpath[1]}/_tombolo"

  # fish
  tombolo completion fish > ~/.config/fish/completions/tombolo.fish

  # PowerShell
  tombolo completion powershell | Out-String | Invoke-Expression`,
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, shell := range shells {
				if slices.Equal(args, []string{shell.name}) {
					return shell.write(cmd.Root(), p)
				}
			}
			return usageError{fmt.Errorf("%q: give one shell, %s", strings.Join(args, " "), strings.Join(names, ", "))}
		},
	}
}

// choices are the flags that take one of a few values.
var choices = map[string][]string{
	"log-format":           logFormats,
	"log-level":            logLevels,
	"output":               {outputText, outputJSON},
	"memory-swap-behavior": {noSwap, limitedSwap},
}

// completeFlags says of every flag of a command and those below it how its values are completed: one of a few, a file, a directory,
// or not at all. The names of flags tell.
func completeFlags(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		complete := cobra.NoFileCompletions
		switch {
		case choices[f.Name] != nil:
			complete = cobra.FixedCompletions(choices[f.Name], cobra.ShellCompDirectiveNoFileComp)
		case isPath(f.Name, "dir", "path", "root"):
			complete = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
		case isPath(f.Name, "file", "config", "kubeconfig", "policy", "hosts", "agent", "containerd"):
			complete = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
		}
		// It fails only for flags that have a completion or do not exist.
		_ = cmd.RegisterFlagCompletionFunc(f.Name, complete)
	})
	for _, sub := range cmd.Commands() {
		completeFlags(sub)
	}
}

// isPath says whether the last word of a flag's name is one of those.
func isPath(flag string, words ...string) bool {
	return slices.Contains(words, flag[strings.LastIndex(flag, "-")+1:])
}
