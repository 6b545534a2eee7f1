// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"testing"
)

// mostFailures is how many broken runs are told before a part gives up.
const mostFailures = 5

func TestRandomHistoriesBreakNoInvariant(t *testing.T) {
	if seed := number(t, "SCENARIO_SEED", 0); seed != 0 {
		replay(t, uint64(seed)) //nolint:gosec // a seed.
		return
	}
	runs := number(t, "SCENARIO_RUNS", 0)
	if runs == 0 {
		t.Skip("SCENARIO_RUNS says how many histories are run: an open fault of the engine (seed 243496992148145) is found by about one in 400")
	}
	first := number(t, "SCENARIO_FIRST", 1)
	parts := runtime.GOMAXPROCS(0)
	for part := range parts {
		t.Run(fmt.Sprintf("part %d", part), func(t *testing.T) {
			t.Parallel()
			bad := 0
			for n := first + part; n < first+runs && bad < mostFailures; n += parts {
				if !judge(t, shuffleSeed(uint64(n))>>16) { //nolint:gosec // a seed.
					bad++
				}
			}
		})
	}
}

func judge(t *testing.T, seed uint64) (good bool) {
	t.Helper()
	r := run(t, Draw(seed), runOptions{first: -1})
	if len(r.Violations) == 0 {
		return true
	}
	h := Draw(seed)
	enough := shrink(t, h, r.Violations[0].Invariant, runOptions{})
	short := run(t, Draw(seed), runOptions{first: enough})
	if len(short.Violations) == 0 {
		short = r
	}
	t.Errorf("seed %d breaks an invariant: %v\nreplay it with SCENARIO_SEED=%d go test -run Random -v ./test/scenario\n"+
		"after its first %d of %d operations:\n%s", seed, short.Violations, seed, enough, len(h.Ops), short.Trace)
	return false
}

func replay(t *testing.T, seed uint64) {
	t.Helper()
	o := runOptions{first: number(t, "SCENARIO_OPS", -1)}
	if os.Getenv("SCENARIO_LOG") != "" {
		o.logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	r := run(t, Draw(seed), o)
	t.Logf("trace:\n%s", r.Trace)
	for _, v := range r.Violations {
		t.Error(v)
	}
}

// number reads a number from the environment.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s=%q: use a number", name, text)
	}
	return n
}
