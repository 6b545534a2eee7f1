// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tombolo-dev/tombolo/cmd/tombolo/settings"
)

const referenceFile = "../../docs/cli.md"

// introductionFile is the part of docs/cli.md that is written by hand.
const introductionFile = "testdata/cli-introduction.md"

// reference is what docs/cli.md has to be.
func reference(t *testing.T, root *cobra.Command) string {
	t.Helper()
	introduction, err := os.ReadFile(introductionFile)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	out.Write(introduction)
	for _, e := range exitCodes {
		fmt.Fprintf(&out, "| %d | %s |\n", e.code, e.meaning)
	}
	var describe func(cmd *cobra.Command)
	describe = func(cmd *cobra.Command) {
		fmt.Fprintf(&out, "\n## %s\n\n%s.\n\nUsage: `%s`\n\n```text\n%s\n```\n", cmd.CommandPath(), cmd.Short, cmd.UseLine(), cmd.Example)
		table := ""
		cmd.Flags().SortFlags = false
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" {
				table += referenceRow(f, cmd)
			}
		})
		if table != "" {
			fmt.Fprintf(&out, "\n| flag | environment | key | default | meaning |\n|---|---|---|---|---|\n%s", table)
		}
		for _, sub := range cmd.Commands() {
			describe(sub)
		}
	}
	for _, cmd := range root.Commands() {
		describe(cmd)
	}
	return out.String()
}

func referenceRow(f *pflag.Flag, cmd *cobra.Command) string {
	key, value := settings.Key(f.Name), strings.Trim(f.DefValue, "[]")
	if !takesFile(cmd) {
		key = ""
	}
	code := func(text string) string {
		if text == "" {
			return ""
		}
		return "`" + text + "`"
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s |\n", code("--"+f.Name), code(settings.EnvName(f.Name)), code(key), code(value),
		strings.NewReplacer("|", "\\|", "<", "&lt;").Replace(f.Usage))
}

func takesFile(cmd *cobra.Command) bool { return cmd.Flags().Lookup("config") != nil }

func testTree() (*process, *cobra.Command) {
	p := &process{lookupEnv: func(string) (string, bool) { return "", false }, stdout: io.Discard, stderr: io.Discard}
	return p, newRootCommand(p)
}

func TestReferenceIsWhatTheProgramDoes(t *testing.T) {
	_, root := testTree()
	got := reference(t, root)
	if *update {
		if err := os.WriteFile(referenceFile, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s is not what the program does, rewrite it with -update (-file +program):\n%s", referenceFile, d)
	}
}

// TestEverySettingIsAFlagAVariableAndAKey: no two have the same name, each has a form that a file can have, and the file with
// all defaults changes nothing.
func TestEverySettingIsAFlagAVariableAndAKey(t *testing.T) {
	p, _ := testTree()
	if len(p.configured) < 2 {
		t.Fatalf("%d sub-commands take a file", len(p.configured))
	}
	for _, c := range p.configured {
		names := map[string]string{}
		c.cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || settings.Key(f.Name) == "" {
				return
			}
			key, env := settings.Key(f.Name), settings.EnvName(f.Name)
			for _, name := range []string{key, env} {
				if name == "" || names[name] != "" {
					t.Errorf("%s: --%s has the name %q, and --%s has it, too", c.kind, f.Name, name, names[name])
				}
				names[name] = f.Name
			}
			if _, err := settings.Default(f); err != nil {
				t.Errorf("%s: %v", c.kind, err)
			}
		})
		text, err := settings.Defaults(c.kind, c.cmd.Flags())
		if err != nil {
			t.Fatal(err)
		}
		file, err := settings.Parse("default.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if _, problems := settings.Apply(c.cmd.Flags(), settings.Sources{File: file, LookupEnv: p.lookupEnv}); len(problems) > 0 {
			t.Errorf("%s: %v", c.kind, problems)
		}
		c.cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.String() != f.DefValue && !f.Hidden {
				t.Errorf("%s: the default of --%s is %s, and %s in the file", c.kind, f.Name, f.DefValue, f.Value)
			}
			if !f.Changed && !f.Hidden && settings.Key(f.Name) != "" && f.Value.Type() != "stringToString" {
				t.Errorf("%s: --%s is not in the file with all defaults", c.kind, f.Name)
			}
		})
	}
}

func TestEveryCommandHasExamplesThatItTakes(t *testing.T) {
	_, root := testTree()
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Example == "" || cmd.Long == "" || cmd.Short == "" {
			t.Errorf("%s has no example or no text", cmd.CommandPath())
		}
		joined := strings.ReplaceAll(cmd.Example, "\\\n", " ")
		for line := range strings.Lines(joined) {
			fields := strings.Fields(line)
			if len(fields) == 0 || fields[0] != "tombolo" {
				continue
			}
			for i, word := range fields {
				if word == ">" || word == "|" || word == "--" {
					fields = fields[:i]
					break
				}
			}
			_, fresh := testTree()
			named, flags, err := fresh.Find(fields[1:])
			if err == nil {
				err = named.ParseFlags(flags)
			}
			if err != nil {
				t.Errorf("%s: example %q: %v", cmd.CommandPath(), strings.TrimSpace(line), err)
			}
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(root)
}
