// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/tombolo-dev/tombolo/test/chart"
)

const repository = "../.."

func blocks(t *testing.T) []Block {
	t.Helper()
	all, err := All(repository)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 40 {
		t.Fatalf("only %d blocks were found", len(all))
	}
	return all
}

func TestBlocksOfADocument(t *testing.T) {
	got, err := Parse("x.md", "text\n```sh\ntool -f - <<END\na: 1\nEND\n```\n\n```\nlast\n```\n")
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if b := got[0]; b.Line != 2 || b.Language != "sh" || b.First() != "tool -f - <<END" || !slices.Equal(b.HereDocuments(), []string{"a: 1\n"}) {
		t.Errorf("%+v with %q", b, b.HereDocuments())
	}
	if b := got[1]; b.Line != 8 || b.Text != "last\n" || !b.IsShell() || b.HereDocuments() != nil {
		t.Errorf("%+v", b)
	}
	if _, err := Parse("x.md", "```\nopen\n"); err == nil || !strings.Contains(err.Error(), "x.md:1") {
		t.Errorf("a block without an end: %v", err)
	}
}

// TestEveryCommandIsRunOrHasAReason: a new block of commands is run by an end-to-end test, or it is said why not.
func TestEveryCommandIsRunOrHasAReason(t *testing.T) {
	run, reasons := Run(), NotRun()
	found := map[Key]bool{}
	for _, b := range blocks(t) {
		if !b.IsShell() {
			continue
		}
		if found[b.Key()] {
			t.Errorf("%s begins like another block of the document", b.Name())
		}
		found[b.Key()] = true
		if (run[b.Key()] == "") == (reasons[b.Key()] == "") {
			t.Errorf("%s: %q must be in one of Run and NotRun", b.Name(), b.First())
		}
	}
	for _, keys := range []map[Key]string{run, reasons} {
		for key := range keys {
			if !found[key] {
				t.Errorf("%v is in no document", key)
			}
		}
	}
}

// TestWhoRunsCommandsIsATest: the end-to-end tests that are named exist. Each fails if it has not run all that is named here.
func TestWhoRunsCommandsIsATest(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(repository, "test/*/*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(text)
	}
	for _, test := range Run() {
		if !strings.Contains(source.String(), "\nfunc "+test+"(t *testing.T) {\n") {
			t.Errorf("there is no %s", test)
		}
	}
}

// TestCommandsAreOfTheShell has bash read each block of commands.
func TestCommandsAreOfTheShell(t *testing.T) {
	for _, b := range blocks(t) {
		if !b.IsShell() {
			continue
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-n")
		cmd.Stdin = strings.NewReader(b.Text)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v: %s", b.Name(), err, out)
		}
	}
}

// TestManifestsAreTaken sorts what is written in YAML: settings go to tombolo's own tests, values to the chart, and the rest must be objects of
// Kubernetes or, if they are pieces, belong into a pod.
func TestManifestsAreTaken(t *testing.T) {
	conformer, err := chart.NewConformer(chart.KubernetesVersions()[0], t.TempDir())
	if errors.Is(err, chart.ErrNoKubeconform) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, b := range blocks(t) {
		texts := b.HereDocuments()
		if b.Language == "yaml" {
			texts = append(texts, b.Text)
		}
		for _, text := range texts {
			kind, err := try(t, conformer, text)
			if err != nil {
				t.Errorf("%s, taken for %s: %v", b.Name(), kind, err)
			}
			found[kind]++
		}
	}
	for _, kind := range []string{settings, values, object, piece} {
		if found[kind] == 0 {
			t.Errorf("there are no %s, so the test shows nothing of them: %v", kind, found)
		}
	}
}

// What a text in YAML may be.
const (
	settings = "settings of tombolo"
	values   = "values of the chart"
	object   = "an object of Kubernetes"
	piece    = "a piece of a pod"
)

func try(t *testing.T, conformer *chart.Conformer, text string) (kind string, err error) {
	t.Helper()
	var content map[string]any
	if err := yaml.UnmarshalStrict([]byte(text), &content); err != nil {
		return "YAML", err
	}
	version, _ := content["apiVersion"].(string)
	switch {
	case strings.HasPrefix(version, "tombolo.dev/"):
		return settings, nil
	case version != "":
		return object, conformer.Check(t.Context(), text)
	case content["nodes"] != nil || content["nodeDefaults"] != nil:
		file := filepath.Join(t.TempDir(), "values.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return values, err
		}
		_, err := chart.Template(t.Context(), chart.Release{
			Chart: filepath.Join(repository, "charts/tombolo"), Name: "shore", Namespace: "tombolo", Values: []string{file},
		})
		return values, err
	default:
		content["containers"] = []any{map[string]any{"name": "main"}}
		pod, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "x"}, "spec": content})
		if err != nil {
			return piece, err
		}
		return piece, conformer.Check(t.Context(), string(pod))
	}
}
