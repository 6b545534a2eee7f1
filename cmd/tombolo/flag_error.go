// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tombolo-dev/tombolo/cmd/tombolo/settings"
)

// flagError is what the parser of the command line stopped at.
type flagError struct {
	cmd *cobra.Command
	error
}

// all is everything that is wrong with the flags of a command line, since the parser stops at the first: what it stopped at is
// taken out, and the rest parsed anew.
func (e flagError) all(p *process, args []string) error {
	problems := []error{e.explain()}
	for rest, ok := e.without(args); ok; rest, ok = e.without(rest) {
		again := *p
		cmd, flags, err := newRootCommand(&again).Find(rest)
		if err != nil || cmd.CommandPath() != e.cmd.CommandPath() {
			break // what was taken out belonged to the name of the command
		}
		if err = cmd.ParseFlags(flags); err == nil {
			break
		}
		e = flagError{cmd, err}
		problems = append(problems, e.explain())
	}
	return errors.Join(problems...)
}

// explain says what is wrong and what to do.
func (e flagError) explain() error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	switch {
	case errors.As(e.error, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return fmt.Errorf("-%s is no flag of %q", unknown.GetSpecifiedName(), e.cmd.CommandPath())
	case errors.As(e.error, &unknown):
		problem := fmt.Sprintf("--%s is no flag of %q", unknown.GetSpecifiedName(), e.cmd.CommandPath())
		if near := settings.Nearest(unknown.GetSpecifiedName(), visibleFlags(e.cmd)); near != "" {
			problem += fmt.Sprintf("; did you mean --%s?", near)
		}
		return errors.New(problem)
	case errors.As(e.error, &invalid):
		return fmt.Errorf("--%s: %s", invalid.GetFlag().Name, settings.Remedy(invalid.GetFlag(), invalid.GetValue()))
	case errors.As(e.error, &missing):
		return fmt.Errorf("--%s needs a value", missing.GetFlag().Name)
	default:
		return e.error
	}
}

// without returns the arguments without the one that the parser stopped at, if it can be told.
func (e flagError) without(args []string) (rest []string, ok bool) {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	var name string
	switch {
	case errors.As(e.error, &unknown) && unknown.GetSpecifiedShortnames() == "":
		name = "--" + unknown.GetSpecifiedName()
	case errors.As(e.error, &invalid):
		name = "--" + invalid.GetFlag().Name
	default:
		return nil, false
	}
	for i, arg := range args {
		if strings.HasPrefix(arg, name+"=") {
			return slices.Delete(slices.Clone(args), i, i+1), true
		}
		if arg != name {
			continue
		}
		end := i + 1
		if invalid != nil && end < len(args) {
			end++ // the value
		}
		return slices.Delete(slices.Clone(args), i, end), true
	}
	return nil, false
}

// visibleFlags are the names of the flags that the help of a command shows.
func visibleFlags(cmd *cobra.Command) (names []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return names
}
