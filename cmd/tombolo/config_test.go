// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// executeIn runs one command line in an environment.
func executeIn(env map[string]string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(context.Background(), args, func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}, nil, &out, &errs)
	return code, out.String(), errs.String()
}

// settingsFile writes a file of settings, whose first line of settings is line 3.
func settingsFile(t *testing.T, kind, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte("apiVersion: tombolo.dev/v1alpha1\nkind: "+kind+"\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDefaultsAreGolden(t *testing.T) {
	for _, name := range []string{"node", "host"} {
		code, out, errs := execute("config", "default", name)
		if code != exitSuccess || errs != "" {
			t.Errorf("%s: exit %d, %s", name, code, errs)
		}
		golden(t, "config-default-"+name, out)
	}
	_, node, _ := execute("config", "default", "node")
	if _, out, _ := execute("config", "default"); out != node {
		t.Error("without a name: not those of the node")
	}
	if code, _, errs := execute("config", "default", "pki"); code != exitUsage || !strings.Contains(errs, `"pki": give node or host`) {
		t.Errorf("exit %d, %s", code, errs)
	}
}

func TestFileThatIsRightIsSaidToBeRight(t *testing.T) {
	path := settingsFile(t, "NodeConfig", "host: unix:///run/containerd/containerd.sock\nname: edge-1\nnodeLabels: {a: b}\nregisterWithTaints: []\n")
	if code, out, errs := execute("config", "check", path); code != exitSuccess || !strings.Contains(out, "is a NodeConfig without problems") {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	path = settingsFile(t, "HostConfig", "tlsCertFile: c\ntlsPrivateKeyFile: k\nclientCAFile: ca\n")
	if code, out, errs := execute("config", "check", path); code != exitSuccess || !strings.Contains(out, "is a HostConfig without problems") {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
}

func TestFileMayNeedFlagsBesideIt(t *testing.T) {
	path := settingsFile(t, "NodeConfig", "host: unix:///run/containerd/containerd.sock\n")
	if code, _, errs := execute("config", "check", path); code != exitUsage || !strings.Contains(errs, "--name is empty") {
		t.Errorf("exit %d, %s", code, errs)
	}
	if code, _, errs := execute("config", "check", path, "--", "--name=edge-1"); code != exitSuccess {
		t.Errorf("exit %d, %s", code, errs)
	}
	if code, _, errs := executeIn(map[string]string{"TOMBOLO_NAME": "edge-1"}, "config", "check", path); code != exitSuccess {
		t.Errorf("exit %d, %s", code, errs)
	}
	if code, _, errs := execute("config", "check", path, "--", "--nam=edge-1"); code != exitUsage || !strings.Contains(errs, "did you mean --name?") {
		t.Errorf("exit %d, %s", code, errs)
	}
}

// TestAllProblemsAreReportedAtOnceWithWhereTheyComeFrom: of a file, the environment and the command line.
func TestAllProblemsAreReportedAtOnceWithWhereTheyComeFrom(t *testing.T) {
	path := settingsFile(t, "NodeConfig", "maxPod: 5\nport: 0\nmaxParallelStarts: many\nname: Edge_1\n")
	env := map[string]string{"TOMBOLO_MAX_PODS": "-4", "TOMBOLO_POD_MAX_PIDS": "few"}
	code, _, errs := executeIn(env, "node", "--config", path, "--log-level=loud")
	want := []string{
		"Error: " + path + ", line 3: maxPod is no setting of a NodeConfig; did you mean maxPods?",
		"Error: " + path + ", line 5: maxParallelStarts: give a number, without quotes",
		`Error: environment variable TOMBOLO_POD_MAX_PIDS (--pod-max-pids): "few": give a number`,
		`Error: --name "Edge_1": `,
		"Error: --host is empty",
		"Error: --port 0: give a port from 1 to 65535 (--port comes from port in " + path + ", line 4)",
		"Error: --log-level \"loud\": give debug, info, warn or error\n",
		"Error: --max-pods -4: give at least 1 (--max-pods comes from TOMBOLO_MAX_PODS)",
		"(--name comes from name in " + path + ", line 6)",
		"Run 'tombolo node --help' for usage.",
	}
	for _, text := range want {
		if !strings.Contains(errs, text) {
			t.Errorf("%q is not in:\n%s", text, errs)
		}
	}
	if lines := strings.Count(errs, "\n"); code != exitUsage || lines != len(want)-1 {
		t.Errorf("exit %d with %d lines:\n%s", code, lines, errs)
	}
}

func TestFileCanBeNamedInTheEnvironment(t *testing.T) {
	path := settingsFile(t, "HostConfig", "root: here\ntlsCertFile: c\ntlsPrivateKeyFile: k\nclientCAFile: ca\n")
	code, _, errs := executeIn(map[string]string{"TOMBOLO_CONFIG": path}, "host")
	if want := `Error: --root "here": give an absolute path (--root comes from root in ` + path + ", line 3)\n"; code != exitUsage || !strings.HasPrefix(errs, want) {
		t.Errorf("exit %d, %s", code, errs)
	}
}

func TestFilesThatCannotBeTakenAreNamed(t *testing.T) {
	host := settingsFile(t, "HostConfig", "")
	other := settingsFile(t, "Deployment", "")
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"node", "--config", host}, `--config: the file is a "HostConfig", and tombolo node takes a NodeConfig`},
		{[]string{"node", "--config", missing}, "--config: open " + missing},
		{[]string{"config", "check", missing}, "Error: open " + missing},
		{[]string{"config", "check", other}, `kind "Deployment" is not known: it must be NodeConfig`},
		{[]string{"config", "check"}, "no file"},
		{[]string{"config", "check", host, other}, "give one file"},
		{[]string{"config", "check", host, "--", "more"}, "nothing but flags of tombolo host"},
	} {
		code, _, errs := execute(tc.args...)
		if code != exitUsage || !strings.Contains(errs, tc.want) || strings.Count(errs, "Error: ") != 1 {
			t.Errorf("%v: exit %d, %s, want %q", tc.args, code, errs, tc.want)
		}
	}
}

func TestAllWrongFlagsAreReportedAtOnce(t *testing.T) {
	code, _, errs := execute("node", "--prot=1", "--max-pods", "many", "--nam", "x", "--host-ssh-sudo=perhaps", "--port")
	want := `Error: --prot is no flag of "tombolo node"; did you mean --port?
Error: --max-pods: "many": give a number
Error: --nam is no flag of "tombolo node"; did you mean --name?
Error: --host-ssh-sudo: "perhaps": give true or false
Error: --port needs a value
Run 'tombolo node --help' for usage.
`
	if d := cmp.Diff(want, errs); code != exitUsage || d != "" {
		t.Errorf("exit %d (-want +got):\n%s", code, d)
	}
	if _, _, errs := execute("version", "-x"); !strings.Contains(errs, `-x is no flag of "tombolo version"`) {
		t.Error(errs)
	}
}

func TestUnknownCommandsComeWithASuggestion(t *testing.T) {
	for arg, want := range map[string]string{"hots": `did you mean "tombolo host"?`, "nodes": `did you mean "tombolo node"?`, "zzzzzz": `sub-command nor a flag of "tombolo"` + "\n"} {
		if code, _, errs := execute(arg); code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %s", arg, code, errs)
		}
	}
}

func TestLogFlagsHaveTheKubeletsNameToo(t *testing.T) {
	for _, name := range []string{"--log-format", "--logging-format"} {
		code, _, errs := execute("host", name+"=xml")
		if code != exitUsage || !strings.Contains(errs, `--log-format "xml": give text or json`) {
			t.Errorf("%s: exit %d, %s", name, code, errs)
		}
	}
}

func TestVersionInJSONHasAStableForm(t *testing.T) {
	code, out, errs := execute("version", "-o", "json")
	var got map[string]string
	if err := json.Unmarshal([]byte(out), &got); code != exitSuccess || err != nil {
		t.Fatalf("exit %d, %s%v", code, errs, err)
	}
	var keys []string
	for key := range got {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	if d := cmp.Diff([]string{"commit", "date", "go", "platform", "protocol", "version"}, keys); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got["protocol"] != "tombolo.host.v1" || got["version"] != buildVersion() {
		t.Errorf("%v", got)
	}
	if code, _, errs := execute("version", "-o", "xml"); code != exitUsage || !strings.Contains(errs, `--output "xml": give text or json`) {
		t.Errorf("exit %d, %s", code, errs)
	}
	if code, out, _ := execute("--version"); code != exitSuccess || !strings.HasPrefix(out, "tombolo "+buildVersion()+" ") {
		t.Errorf("exit %d, %s", code, out)
	}
}

func TestLinkerKnowsBetterThanTheBuildInformation(t *testing.T) {
	info := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"},
	}}
	for name, tc := range map[string]struct {
		linker build
		info   *debug.BuildInfo
		want   string
	}{
		"linker":      {build{Version: "v9", Commit: "def", Date: "2026-02-02T03:04:05Z"}, info, "v9 def 2026-02-02T03:04:05Z"},
		"information": {build{}, info, "v1.2.3 abc 2026-01-02T03:04:05Z"},
		"neither":     {build{}, nil, "v0.0.0  "},
		"development": {build{}, &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "v0.0.0  "},
	} {
		got := describeBuild(tc.linker, tc.info)
		if text := got.Version + " " + got.Commit + " " + got.Date; text != tc.want {
			t.Errorf("%s: %q, want %q", name, text, tc.want)
		}
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code, out, errs := execute("completion", shell); code != exitSuccess || !strings.Contains(out, "__complete") || errs != "" {
			t.Errorf("%s: exit %d, %d bytes, %s", shell, code, len(out), errs)
		}
	}
	if code, _, errs := execute("completion", "csh"); code != exitUsage || !strings.Contains(errs, "give one shell, bash, zsh, fish, powershell") {
		t.Errorf("exit %d, %s", code, errs)
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"commands":    {[]string{"ho"}, "host\tServe this machine's containerd to a node\n:4\n"},
		"format":      {[]string{"node", "--log-format", ""}, "text\njson\n:4\n"},
		"swap":        {[]string{"node", "--memory-swap-behavior", ""}, "NoSwap\nLimitedSwap\n:4\n"},
		"directories": {[]string{"node", "--cert-dir", ""}, ":16\n"},
		"files":       {[]string{"node", "--host-ca-file", ""}, ":0\n"},
		"no files":    {[]string{"node", "--name", ""}, ":4\n"},
		"shells":      {[]string{"completion", "po"}, "powershell\n:4\n"},
	} {
		_, out, _ := execute(append([]string{"__complete"}, tc.args...)...)
		if d := cmp.Diff(tc.want, out); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}
