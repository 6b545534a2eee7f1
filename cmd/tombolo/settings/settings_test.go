// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// values are those of flags of every form.
type values struct {
	Name     string
	Secret   []string
	Port     int
	Limit    int64
	Sudo     bool
	Validity time.Duration
	Labels   map[string]string
}

func (v *values) flags() *pflag.FlagSet {
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	fs.StringVar(&v.Name, "name", "", "name of it")
	fs.StringSliceVar(&v.Secret, "url-header", []string{"a"}, "headers")
	fs.IntVar(&v.Port, "port", 10250, "port")
	fs.Int64Var(&v.Limit, "limit", -1, "limit")
	fs.BoolVar(&v.Sudo, "sudo", true, "whether")
	fs.DurationVar(&v.Validity, "validity", time.Hour, "how long")
	fs.StringToStringVar(&v.Labels, "node-labels", nil, "labels")
	fs.String("config", "", "file")
	fs.Bool("help", false, "help")
	return fs
}

const head = "apiVersion: tombolo.dev/v1alpha1\nkind: TestConfig\n"

// apply applies a file, an environment and a command line.
func apply(t *testing.T, file string, env map[string]string, args ...string) (values, Origins, error) {
	t.Helper()
	var v values
	fs := v.flags()
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	f, err := Parse("x.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	origins, problems := Apply(fs, Sources{File: f, LookupEnv: func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}})
	return v, origins, errors.Join(problems...)
}

func TestFlagsWinOverEnvironmentOverFileOverDefault(t *testing.T) {
	file := head + "name: file\nport: 1\nlimit: 2\nurlHeader: [b, 'c, d']\nnodeLabels: {k: v, l: \"1\"}\nvalidity: 2h\n"
	got, origins, err := apply(t, file, map[string]string{"TOMBOLO_NAME": "env", "TOMBOLO_PORT": "3", "TOMBOLO_HELP": "true"}, "--name=flag")
	if err != nil {
		t.Fatal(err)
	}
	want := values{
		Name: "flag", Port: 3, Limit: 2, Secret: []string{"b", "c, d"}, Sudo: true, Validity: 2 * time.Hour,
		Labels: map[string]string{"k": "v", "l": "1"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	wantOrigins := Origins{
		"port": "TOMBOLO_PORT", "limit": "limit in x.yaml, line 5", "url-header": "urlHeader in x.yaml, line 6",
		"node-labels": "nodeLabels in x.yaml, line 7", "validity": "validity in x.yaml, line 8",
	}
	if d := cmp.Diff(wantOrigins, origins); d != "" {
		t.Errorf("origins (-want +got):\n%s", d)
	}
}

func TestListsAndMapsOfAFileReplaceDefaults(t *testing.T) {
	got, _, err := apply(t, head+"urlHeader: []\nnodeLabels: {}\n", nil)
	if err != nil || len(got.Secret) != 0 || len(got.Labels) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	got, _, err = apply(t, head+"urlHeader: &a ['q\"uoted', x]\n", nil)
	if d := cmp.Diff([]string{`q"uoted`, "x"}, got.Secret); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
}

func TestEveryProblemOfTheSourcesIsNamedWithItsLine(t *testing.T) {
	file := head + `nam: x
port: "8"
limit: 9999999999999999999
sudo: perhaps
validity: 3
urlHeader: s3cret
nodeLabels: {a: 1}
other: 1
host-name: x
`
	_, origins, err := apply(t, file, map[string]string{"TOMBOLO_SUDO": "maybe"})
	want := []string{
		"x.yaml, line 3: nam is no setting of a TestConfig; did you mean name?",
		"x.yaml, line 10: other is no setting of a TestConfig: leave it out",
		"x.yaml, line 11: host-name is no setting of a TestConfig: leave it out",
		"x.yaml, line 5: limit: \"9999999999999999999\": give a number",
		"x.yaml, line 9: nodeLabels: line 9: give key: value, both as texts, in quotes if they could be read as something else",
		"x.yaml, line 4: port: give a number, without quotes",
		"environment variable TOMBOLO_SUDO (--sudo): \"maybe\": give true or false",
		"x.yaml, line 6: sudo: give true or false",
		"x.yaml, line 8: urlHeader: give a list of texts, such as [a, b]",
		"x.yaml, line 7: validity: give a duration, such as 90s or 24h",
	}
	if d := cmp.Diff(want, strings.Split(err.Error(), "\n")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if len(origins) > 0 {
		t.Errorf("origins of values that were not taken: %v", origins)
	}
	if strings.Contains(err.Error(), "s3cret") {
		t.Error("a value that may be secret is repeated")
	}
}

func TestFilesThatAreNoneOfSettings(t *testing.T) {
	for name, tc := range map[string]struct{ file, want string }{
		"nothing":       {"", `x.yaml, line 1: apiVersion "" is not known: it must be tombolo.dev/v1alpha1`},
		"version":       {"kind: A\napiVersion: v2\n", `x.yaml, line 2: apiVersion "v2" is not known`},
		"twice":         {head + "port: 1\nport: 2\n", "x.yaml, line 4: port is in line 3 already"},
		"two documents": {head + "---\n" + head, "more than one document"},
		"a list":        {"- a\n", "line 1: give settings as key: value"},
		"no YAML":       {"a: [", "x.yaml: yaml: "},
		"merge":         {head + "<<: {port: 1}\n", "x.yaml, line 3: give a setting and its value"},
		"null":          {"~\n", "apiVersion"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse("x.yaml", []byte(tc.file)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want %q", err, tc.want)
			}
		})
	}
}

func TestLargeFilesAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.yaml")
	if err := os.WriteFile(path, []byte(head+"#"+strings.Repeat("x", maxFileBytes)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "no file of settings") {
		t.Error(err)
	}
	if _, err := Read(path + "-missing"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestWhereAValueComesFromIsAddedToWhatIsWrongWithIt(t *testing.T) {
	o := Origins{"port": "TOMBOLO_PORT", "v": "v in x.yaml, line 3", "host": "host in x.yaml, line 4"}
	for line, want := range map[string]string{
		"--port 0: give a port": "--port 0: give a port (--port comes from TOMBOLO_PORT)",
		"--v -1: no":            "--v -1: no (--v comes from v in x.yaml, line 3)",
		"--ports 0":             "--ports 0",
		"--name is for --host, and --port is not": "--name is for --host, and --port is not (--host comes from host in x.yaml, line 4; --port comes from TOMBOLO_PORT)",
		"--port or --port":                        "--port or --port (--port comes from TOMBOLO_PORT)",
	} {
		if got := o.Explain(line); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	if got := Origins(nil).Explain("--port"); got != "--port" {
		t.Error(got)
	}
}

func TestDefaultsAreAFileThatChangesNothing(t *testing.T) {
	var v, w values
	fs := v.flags()
	text, err := Defaults("TestConfig", fs)
	if err != nil {
		t.Fatal(err)
	}
	file, err := Parse("x.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	if _, problems := Apply(w.flags(), Sources{File: file, LookupEnv: func(string) (string, bool) { return "", false }}); len(problems) > 0 {
		t.Fatalf("%v in:\n%s", problems, text)
	}
	w2 := values{}
	w2.flags()
	if d := cmp.Diff(w2, w); d != "" {
		t.Errorf("(-defaults +file):\n%s", d)
	}
	for _, key := range []string{"name", "urlHeader", "port", "limit", "sudo", "validity", "nodeLabels"} {
		if !strings.Contains(text, "\n"+key+":") {
			t.Errorf("%s is not in:\n%s", key, text)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", head, head + "port: 1\n", head + "urlHeader: [a, {b: c}]\nnodeLabels: {a: *x}\n", head + "a: &x [*x]\n", "{\"apiVersion\": 1}", "? [a]\n: b\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse("x.yaml", data)
		if err != nil {
			return
		}
		var v values
		fs := v.flags()
		origins, _ := Apply(fs, Sources{File: file, LookupEnv: func(string) (string, bool) { return "", false }})
		for name := range origins {
			if !fs.Changed(name) {
				t.Errorf("--%s has an origin and was not set", name)
			}
		}
	})
}
