// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

func TestCases(t *testing.T) {
	files, err := filepath.Glob("cases/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	only := os.Getenv("SCENARIO_CASE")
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		if only != "" && name != only {
			continue
		}
		t.Run(name, func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c, err := ParseCase(b)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			synctest.Test(t, func(t *testing.T) { runCase(t, c, only != "") })
		})
	}
}

func runCase(t *testing.T, c *Case, loud bool) {
	w := newWorld(t)
	if loud {
		w.logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	p := &player{World: w, pods: c.Pods, heals: map[string]func(){}}
	watchers := w.guard()
	w.StartNode()
	err := p.play(c)
	p.close()
	for _, v := range watchers.Violations() {
		t.Errorf("broken: %s", v)
	}
	if err != nil {
		t.Error(err)
	}
	if t.Failed() || loud {
		t.Logf("trace:\n%s", w.trace)
	}
}
