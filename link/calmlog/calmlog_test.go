// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package calmlog

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func TestFloodOfLinesIsLeftOutAndCounted(t *testing.T) {
	var out strings.Builder
	clk := clocktesting.NewFakePassiveClock(time.Unix(1_800_000_000, 0))
	l := New(slog.New(slog.NewTextHandler(&out, nil)), clk)
	for range 1000 {
		l.Warn("refused", "peer", "x")
	}
	if n := strings.Count(out.String(), "refused"); n != burst || strings.Contains(out.String(), "left_out") {
		t.Errorf("%d lines of 1000, want %d: %s", n, burst, out.String())
	}
	clk.SetTime(clk.Now().Add(interval))
	l.Warn("refused", "peer", "y")
	l.Warn("refused", "peer", "z")
	if n := strings.Count(out.String(), "\n"); n != burst+1 || !strings.Contains(out.String(), "peer=y left_out=970") {
		t.Errorf("after a while: %s", out.String())
	}
}

func TestWhoIsKnownMaySayMoreAtAnyLevel(t *testing.T) {
	var out strings.Builder
	clk := clocktesting.NewFakePassiveClock(time.Unix(1_800_000_000, 0))
	l := NewBusy(slog.New(slog.NewTextHandler(&out, nil)), clk)
	for range 10_000 {
		l.Log(slog.LevelDebug, "not wanted")
	}
	for range 10_000 {
		l.Log(slog.LevelInfo, "says", "text", "x")
	}
	if n := strings.Count(out.String(), "level=INFO msg=says text=x\n"); n != busyBurst || n != strings.Count(out.String(), "\n") {
		t.Errorf("%d lines", n)
	}
	clk.SetTime(clk.Now().Add(busyInterval))
	l.Log(slog.LevelError, "says")
	if !strings.Contains(out.String(), "level=ERROR msg=says left_out=9500\n") {
		t.Error("the next line does not tell what was left out")
	}
}
