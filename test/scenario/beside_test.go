// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import "testing"

// TestTroubleOfOnePodDelaysNoOther checks I6.
func TestTroubleOfOnePodDelaysNoOther(t *testing.T) {
	histories := uint64(40)
	if testing.Short() || raceDetector {
		histories = 10
	}
	for n := range histories {
		seed := shuffleSeed(n) >> 16
		if r := beside(t, seed, runOptions{}); len(r.Violations) > 0 {
			t.Fatalf("seed %d breaks an invariant: %v\n%s", seed, r.Violations, r.Trace)
		}
	}
}
