// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tombolo-dev/tombolo/test/docs"
	"github.com/tombolo-dev/tombolo/test/testbed"
)

const repository = "../.."

// TestDemo runs the demo as the README tells it, and removes it.
func TestDemo(t *testing.T) {
	testbed.RequireE2E(t)
	blocks, err := docs.RunBy(repository, "TestDemo")
	if err != nil {
		t.Fatal(err)
	}
	if len(blocks) != 1 {
		t.Fatalf("the README has %d blocks for the demo", len(blocks))
	}
	dir := t.TempDir() // a demo that somebody looks at is in the usual folder
	t.Cleanup(func() {
		makes(context.WithoutCancel(t.Context()), t, dir, "make demo-down")
		if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > 0 {
			t.Errorf("the demo left %q, %v", left, err)
		}
	})
	for _, b := range blocks {
		out := makes(t.Context(), t, dir, b.Text)
		for _, command := range []string{"kubectl get node", "kubectl create", "kubectl logs", "kubectl exec", "kubectl delete", "make demo-down"} {
			if !strings.Contains(out, command) {
				t.Errorf("it does not show %q", command)
			}
		}
	}
}

// makes runs a command in the repository, with a folder for what it writes.
func makes(ctx context.Context, t *testing.T, dir, command string) string {
	t.Helper()
	cmd := exec.CommandContext(ctx, "bash", "-euc", command)
	cmd.Dir, cmd.Env = repository, append(os.Environ(), "TMPDIR="+dir)
	out, err := cmd.CombinedOutput()
	t.Logf("$ %s\n%s", command, out)
	if err != nil {
		t.Errorf("%s: %v", command, err)
	}
	return string(out)
}
