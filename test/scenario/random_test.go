// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
)

// How many histories are played if SCENARIO_RUNS does not say it.
const (
	usualRuns = 10_000
	shortRuns = 100
)

// mostFailures is how many broken runs are told before a part gives up.
const mostFailures = 3

func TestRandomHistoriesBreakNoInvariant(t *testing.T) {
	if seed := number(t, "SCENARIO_SEED", 0); seed != 0 {
		replay(t, uint64(seed))
		return
	}
	usual := usualRuns
	if testing.Short() || raceDetector {
		usual = shortRuns
	}
	runs, first := number(t, "SCENARIO_RUNS", usual), number(t, "SCENARIO_FIRST", 1)
	// Histories make much garbage and keep none of it.
	t.Cleanup(func(before int) func() { return func() { debug.SetGCPercent(before) } }(debug.SetGCPercent(400)))
	parts := runtime.GOMAXPROCS(0)
	for part := range parts {
		t.Run(fmt.Sprintf("part %d", part), func(t *testing.T) {
			t.Parallel()
			bad := 0
			for n := first + part; n < first+runs && bad < mostFailures; n += parts {
				if !judge(t, shuffleSeed(uint64(n))>>16) {
					bad++
				}
			}
		})
	}
}

func judge(t *testing.T, seed uint64) (good bool) {
	t.Helper()
	r := run(t, Draw(seed), runOptions{})
	if len(r.Violations) == 0 {
		return true
	}
	h := Draw(seed)
	needed := shrink(t, h, r.Violations[0].Invariant, runOptions{})
	if short := run(t, Draw(seed), runOptions{only: needed}); len(short.Violations) > 0 {
		r = short
	}
	t.Errorf("seed %d breaks an invariant: %v\nreplay it with SCENARIO_SEED=%d SCENARIO_OPS=%s go test -run Random -v ./test/scenario\n"+
		"with %d of %d operations:\n%s", seed, r.Violations, seed, joined(needed), len(needed), len(h.Ops), r.Trace)
	return false
}

func joined(numbers []int) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(numbers), "[]"), " ", ",")
}

func replay(t *testing.T, seed uint64) {
	t.Helper()
	o := runOptions{}
	for word := range strings.SplitSeq(os.Getenv("SCENARIO_OPS"), ",") {
		if word == "" {
			continue
		}
		n, err := strconv.Atoi(word)
		if err != nil {
			t.Fatalf("SCENARIO_OPS: %q: use numbers with commas between them", word)
		}
		o.only = append(o.only, n)
	}
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
