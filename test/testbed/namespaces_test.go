// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// TestScriptRunsAsSoonAsItIsWritten writes and runs scripts while other goroutines start processes, as hosts that are
// added at once do.
func TestScriptRunsAsSoonAsItIsWritten(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 60 {
				name := filepath.Join(dir, fmt.Sprintf("%d-%d", worker, i))
				if err := writeScript(name, "#!/bin/sh\nexit 0\n", scriptValues{}); err != nil {
					t.Error(err)
					return
				}
				if out, err := exec.CommandContext(t.Context(), name).CombinedOutput(); err != nil {
					t.Errorf("running a new script: %v %s", err, out)
					return
				}
			}
		})
	}
	wg.Wait()
}
