// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"os"
	"testing"
)

// enableVariable turns end-to-end tests on. They need root and parts that take minutes to build, so go test ./... alone
// leaves them out; make e2e sets it.
const enableVariable = "TOMBOLO_E2E"

// RequireE2E skips the test, saying how to run it, unless end-to-end tests were asked for.
func RequireE2E(t testing.TB) {
	t.Helper()
	if os.Getenv(enableVariable) == "" {
		t.Skipf("an end-to-end test: run make e2e, or set %s=1 and run as root", enableVariable)
	}
}

// StartT starts a testbed for a test and stops it when the test ends. If the test failed, its logs are kept and named.
func StartT(t testing.TB, opts Options) *Cluster {
	t.Helper()
	RequireE2E(t)
	if opts.Log == nil {
		opts.Log = t.Output()
	}
	c, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The test's own context has ended by now.
		if err := c.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("logs of the testbed: %s", c.LogDir())
			return
		}
		if err := os.RemoveAll(c.StateDir()); err != nil {
			t.Error(err)
		}
	})
	return c
}
