// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

func TestHelpIsASuccessAndNamesEverySubCommand(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}} {
		code, out, errs := execute(args...)
		if code != exitSuccess || errs != "" {
			t.Errorf("%v: exit %d, %q", args, code, errs)
		}
		for _, sub := range []string{"node", "host", "pki", "config", "completion", "version"} {
			if !strings.Contains(out, "\n  "+sub+" ") {
				t.Errorf("%v does not name %q", args, sub)
			}
		}
	}
}

func TestWrongCommandLinesAreUsageErrors(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"hots"}, `"hots" is neither a sub-command nor a flag of "tombolo"`},
		{[]string{"version", "now"}, `"now" is neither a sub-command nor a flag of "tombolo version"`},
		{[]string{"version", "--no-such-flag"}, "--no-such-flag"},
		{[]string{"pki", "init", "--validity", "ten years"}, "--validity"},
	} {
		code, out, errs := execute(test.args...)
		if code != exitUsage || out != "" || !strings.Contains(errs, test.want) || !strings.Contains(errs, "--help' for usage") {
			t.Errorf("%v: exit %d, %q, want %q", test.args, code, errs, test.want)
		}
	}
}

func TestEnvironmentStandsInForFlagsAndFlagsWin(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	env := map[string]string{"TOMBOLO_DIR": dir, "TOMBOLO_VALIDITY": "48h"}
	lookup := func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}
	var out, errs bytes.Buffer
	if code := run(context.Background(), []string{"pki", "init"}, lookup, nil, &out, &errs); code != exitSuccess || !strings.Contains(out.String(), dir) {
		t.Errorf("exit %d, %q %q", code, out.String(), errs.String())
	}
	out.Reset()
	if code := run(context.Background(), []string{"pki", "init", "--dir", other}, lookup, nil, &out, &errs); code != exitSuccess || !strings.Contains(out.String(), other) {
		t.Errorf("exit %d, %q %q", code, out.String(), errs.String())
	}
	env["TOMBOLO_VALIDITY"] = "long"
	env["TOMBOLO_FORCE"] = "perhaps"
	if code := run(context.Background(), []string{"pki", "init"}, lookup, nil, &out, &errs); code != exitUsage {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{"TOMBOLO_VALIDITY (--validity)", "TOMBOLO_FORCE (--force)"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("%q does not name %q", errs.String(), want)
		}
	}
}

func TestVersionIsOneLine(t *testing.T) {
	code, out, _ := execute("version")
	if code != exitSuccess || !strings.HasPrefix(out, "tombolo "+buildVersion()+" go") || strings.Count(out, "\n") != 1 {
		t.Errorf("exit %d, %q", code, out)
	}
}
