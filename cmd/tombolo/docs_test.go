// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/host/policy"
	"github.com/tombolo-dev/tombolo/test/docs"
)

const repository = "../.."

// documents are the project's documents, by their paths in the repository.
func documents(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(repository, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "testdata" || entry.Name() == "bin"):
			return filepath.SkipDir
		case filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(repository, path)
		out[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 10 {
		t.Fatalf("only %d documents were found", len(out))
	}
	return out
}

var linkMark = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestLinksInDocumentsLeadSomewhere: to a file of the repository and, if they say so, to a heading in it.
func TestLinksInDocumentsLeadSomewhere(t *testing.T) {
	for name, text := range documents(t) {
		for _, found := range linkMark.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			path := filepath.Join(repository, name)
			if target != "" {
				path = filepath.Join(filepath.Dir(path), target)
			}
			info, err := os.Stat(path)
			if err != nil {
				t.Errorf("%s links to %s, which is not there", name, found[1])
				continue
			}
			if anchor == "" || info.IsDir() {
				continue
			}
			if data, err := os.ReadFile(path); err != nil || !headings(string(data))[anchor] {
				t.Errorf("%s links to %s, which has no such heading", name, found[1])
			}
		}
	}
}

var notInAnchors = regexp.MustCompile("[^a-z0-9 _-]")

// headings are the anchors that a document has, as GitHub makes them.
func headings(text string) map[string]bool {
	out := map[string]bool{}
	for line := range strings.Lines(text) {
		if title := strings.TrimLeft(line, "#"); title != line {
			plain := notInAnchors.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			out[strings.ReplaceAll(plain, " ", "-")] = true
		}
	}
	return out
}

func TestEveryDocumentIsInTheReadme(t *testing.T) {
	all := documents(t)
	for name := range all {
		if filepath.Dir(name) == "docs" && !strings.Contains(all["README.md"], "("+name+")") {
			t.Errorf("README.md does not name %s", name)
		}
	}
}

// TestCommandsInDocumentsAreTaken: each line of a code block that begins with tombolo has a sub-command and flags that are there.
func TestCommandsInDocumentsAreTaken(t *testing.T) {
	found := 0
	for name, text := range documents(t) {
		for _, line := range commands(text) {
			found++
			if err := parses(line); err != nil {
				t.Errorf("%s has the command\n%s\n%v", name, strings.Join(line, " "), err)
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d commands were found", found)
	}
}

// commands are the lines of code blocks that run tombolo, each as the words after it.
func commands(text string) (out [][]string) {
	for i, block := range strings.Split(text, "```") {
		if i%2 == 0 {
			continue
		}
		for line := range strings.Lines(strings.ReplaceAll(block, "\\\n", " ")) {
			if end := strings.IndexAny(line, "#<>|&;"); end >= 0 { // what the shell does with it
				line = line[:end]
			}
			if words := strings.Fields(line); len(words) > 1 && words[0] == "tombolo" {
				out = append(out, words[1:])
			}
		}
	}
	return out
}

// parses says what is wrong with the words of a command. Three dots stand for what is left out.
func parses(words []string) error {
	var kept []string
	for _, w := range words {
		if w = strings.Trim(w, `"'`); w != "…" && w != "..." {
			kept = append(kept, w)
		}
	}
	root := newRootCommand(&process{lookupEnv: os.LookupEnv, clock: clock.RealClock{}})
	cmd, rest, err := root.Find(kept)
	if err != nil {
		return err
	}
	if cmd == root && !strings.HasPrefix(kept[0], "-") {
		return errors.New("there is no such sub-command")
	}
	if cmd.DisableFlagParsing {
		return nil
	}
	if err := cmd.ParseFlags(rest); err != nil && !errors.Is(err, pflag.ErrHelp) {
		return err
	}
	return argumentsTaken(cmd)
}

func argumentsTaken(cmd *cobra.Command) error {
	if cmd.Args == nil {
		return nil
	}
	return cmd.Args(cmd, cmd.Flags().Args())
}

// TestSettingsInDocumentsAreTaken: those of tombolo itself. test/docs looks at what else the documents have in YAML.
func TestSettingsInDocumentsAreTaken(t *testing.T) {
	blocks, err := docs.All(repository)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, b := range blocks {
		if b.Language != "yaml" || !strings.HasPrefix(b.Text, "apiVersion: tombolo.dev/") {
			continue
		}
		found++
		if strings.Contains(b.Text, "kind: HostPolicy\n") {
			if _, err := policy.Parse([]byte(b.Text), policy.Dirs{Pods: "/var/lib/tombolo/pods", Logs: "/var/log/pods"}); err != nil {
				t.Errorf("%s: %v", b.Name(), err)
			}
			continue
		}
		file := filepath.Join(t.TempDir(), "settings.yaml")
		if err := os.WriteFile(file, []byte(b.Text), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, out, errs := execute("config", "check", file); code != exitSuccess {
			t.Errorf("%s: %s%s", b.Name(), out, errs)
		}
	}
	if found < 2 {
		t.Errorf("only %d were found", found)
	}
}

var metricName = regexp.MustCompile(`\b(tombolo|kubelet|prober)_[a-z_]*[a-z]`)

// TestMetricsInDocumentsAreThere: the names that docs/operations.md tells to watch are in the code.
func TestMetricsInDocumentsAreThere(t *testing.T) {
	var code strings.Builder
	err := filepath.WalkDir(repository, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		code.Write(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	names := metricName.FindAllString(documents(t)["docs/operations.md"], -1)
	if len(names) < 8 {
		t.Errorf("only %q are named", names)
	}
	for _, name := range names {
		_, rest, _ := strings.Cut(name, "_")
		if !strings.Contains(code.String(), `"`+name+`"`) && !strings.Contains(code.String(), `"`+rest+`"`) {
			t.Errorf("there is no metric %s", name)
		}
	}
}
