// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestQuantile(t *testing.T) {
	values := []int{5, 1, 4, 2, 3}
	for q, want := range map[float64]int{0: 1, 0.5: 3, 1: 5} {
		if got := quantile(values, q); got != want {
			t.Errorf("quantile %v is %d, want %d", q, got, want)
		}
	}
	if values[0] != 5 {
		t.Error("the values were sorted in place")
	}
}

func TestPrintComparesWithTheFirstTarget(t *testing.T) {
	f := newFigures([]string{"bare CRI", "tombolo"})
	f.Samples["bare CRI"].sample("start, ms", 100)
	for _, v := range []float64{240, 260, 250} {
		f.Samples["tombolo"].sample("start, ms", v)
	}
	f.Samples["tombolo"].sample("idle, mCPU", 5.25)
	f.order()
	var out bytes.Buffer
	if err := f.print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"250 [240-260] x2.50", "100 [100-100]", "5.25 [5.25-5.25]"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
	if idle := out.String()[strings.Index(out.String(), "idle, mCPU"):]; !strings.Contains(strings.Split(idle, "\n")[0], " - ") {
		t.Errorf("what was not measured is not shown as such:\n%s", out.String())
	}
}

func TestParseStat(t *testing.T) {
	const line = "42 (a (strange) name) S 1 42 42 0 -1 4194560 100 0 0 0 150 50 7 8 20 0 12 0 1000 123456789 2560 18446744073709551615 1 1"
	cpu, memory, err := parseStat(line, 4096)
	if err != nil || cpu != 2*time.Second || memory != 2560*4096 {
		t.Errorf("cpu %v, memory %d, %v; want 2s of user and system time and 2560 pages", cpu, memory, err)
	}
	for _, bad := range []string{"", "42 (x) S 1", strings.ReplaceAll(line, "150", "x")} {
		if _, _, err := parseStat(bad, 4096); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add("42 (a) S 1 42 42 0 -1 4194560 100 0 0 0 150 50 7 8 20 0 12 0 1000 123456789 2560")
	f.Fuzz(func(t *testing.T, line string) {
		if _, _, err := parseStat(line, 4096); err == nil && !strings.Contains(line, ")") {
			t.Errorf("%q was taken", line)
		}
	})
}

func TestCountWritesOfOneUser(t *testing.T) {
	const log = `{"user":{"username":"system:node:a"},"verb":"patch","objectRef":{"resource":"pods","subresource":"status"}}
{"user":{"username":"system:node:a"},"verb":"delete","objectRef":{"resource":"pods"}}
{"user":{"username":"system:node:a"},"verb":"create","objectRef":{"resource":"events"}}
{"user":{"username":"system:node:a"},"verb":"update","objectRef":{"resource":"leases"}}
{"user":{"username":"system:node:b"},"verb":"patch","objectRef":{"resource":"pods"}}
`
	writes, events, err := countWrites(strings.NewReader(log), "system:node:a")
	if err != nil || writes != 2 || events != 1 {
		t.Errorf("%d writes and %d events, %v; want 2 and 1", writes, events, err)
	}
	if _, _, err := countWrites(strings.NewReader("{"), "a"); err == nil {
		t.Error("half a line: no error")
	}
}

func TestFlagsAreChecked(t *testing.T) {
	for _, args := range [][]string{
		{"-targets", "cri,cri"}, {"-targets", "podman"}, {"-bursts", "0"}, {"-bursts", "111"}, {"-bursts", "x"}, {"-rounds", "0"},
	} {
		if _, err := parseFlags(args); err == nil || !strings.Contains(err.Error(), args[0]) {
			t.Errorf("%v: error %v, want one that names the flag", args, err)
		}
	}
	if o, err := parseFlags(nil); err != nil || len(o.targets) != 4 || len(o.plan.bursts) != 2 {
		t.Errorf("defaults %+v, %v", o, err)
	}
}
