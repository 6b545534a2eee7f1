// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// A difference is what both sides made of one selection. Names are sorted.
type difference struct {
	both []string // passed on both
	none []string // failed on both
	// refused passed with the kubelet; with Tombolo a pod was refused.
	refused []string
	// kubelet passed with the kubelet and failed with Tombolo for another reason, or were not run there.
	kubelet []string
	// tombolo passed with Tombolo only.
	tombolo []string
	// unmatched failed on one side and were not run on the other.
	unmatched []string
}

// compare sorts the tests of both sides.
func compare(kubelet, tombolo Results) difference {
	var d difference
	names := slices.Collect(maps.Keys(kubelet))
	names = distinct(slices.AppendSeq(names, maps.Keys(tombolo)))
	for _, name := range names {
		k, t := kubelet[name], tombolo[name]
		var list *[]string
		switch {
		case k.Outcome == Passed && t.Outcome == Passed:
			list = &d.both
		case k.Outcome == Passed && t.Outcome == Failed && len(t.Refused) > 0:
			list = &d.refused
		case k.Outcome == Passed:
			list = &d.kubelet
		case t.Outcome == Passed:
			list = &d.tombolo
		case k.Outcome == Failed && t.Outcome == Failed:
			list = &d.none
		default:
			list = &d.unmatched
		}
		*list = append(*list, name)
	}
	return d
}

// regressions is how many tests count against Tombolo.
func (d difference) regressions() int { return len(d.kubelet) }

// print writes the difference for people.
func (d difference) print(out io.Writer, kubelet, tombolo Results) {
	fmt.Fprintf(out, "\n%4d pass on both\n%4d pass with the kubelet only, because Tombolo refuses a field\n"+
		"%4d pass with the kubelet only, for another reason\n%4d fail on both\n%4d pass with Tombolo only\n%4d were run on one side only\n",
		len(d.both), len(d.refused), len(d.kubelet), len(d.none), len(d.tombolo), len(d.unmatched))
	section(out, "Pass with the kubelet only, because Tombolo refuses a field", d.refused, func(name string) string {
		return strings.Join(tombolo[name].Refused, ", ")
	})
	printFields(out, d.refused, tombolo)
	section(out, "Fail on both", d.none, func(name string) string {
		if fields := tombolo[name].Refused; len(fields) > 0 {
			return kubelet[name].Why + "\n    Tombolo refuses: " + strings.Join(fields, ", ")
		}
		return kubelet[name].Why
	})
	section(out, "Pass with Tombolo only", d.tombolo, func(name string) string { return cmp.Or(kubelet[name].Why, "not run with the kubelet") })
	section(out, "Run on one side only", d.unmatched, func(name string) string { return cmp.Or(kubelet[name].Why, tombolo[name].Why) })
	section(out, "Pass with the kubelet only, for another reason", d.kubelet, func(name string) string {
		return cmp.Or(tombolo[name].Why, "not run with Tombolo")
	})
}

func section(out io.Writer, title string, names []string, why func(name string) string) {
	if len(names) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s:\n", title)
	for _, name := range names {
		fmt.Fprintf(out, "  %s\n    %s\n", name, why(name))
	}
}

// printFields tells how many tests wait for each field; a test may wait for several.
func printFields(out io.Writer, names []string, results Results) {
	count := map[string]int{}
	for _, name := range names {
		for _, field := range results[name].Refused {
			count[field]++
		}
	}
	fields := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	if len(fields) == 0 {
		return
	}
	fmt.Fprintln(out, "\nTests that wait for a field:")
	for _, field := range fields {
		fmt.Fprintf(out, "%4d  %s\n", count[field], field)
	}
}

// missed returns why the tests that must pass did not, by name.
func missed(must []string, results Results) map[string]string {
	why := map[string]string{}
	for _, name := range must {
		switch r := results[name]; {
		case r.Outcome == Passed:
		case r.Outcome == "":
			why[name] = "no such test was run: is it named as in the suite, and did it skip itself?"
		case len(r.Refused) > 0:
			why[name] = "refused: " + strings.Join(r.Refused, ", ")
		default:
			why[name] = r.Why
		}
	}
	return why
}

// slowest are the names of the n tests that took longest.
func (r Results) slowest(n int) []string {
	names := slices.SortedFunc(maps.Keys(r), func(a, b string) int { return cmp.Compare(r[b].Took, r[a].Took) })
	return names[:min(n, len(names))]
}

func (r Results) summary() string {
	passed, refused := 0, 0
	for _, result := range r {
		switch {
		case result.Outcome == Passed:
			passed++
		case len(result.Refused) > 0:
			refused++
		}
	}
	return fmt.Sprintf("%d tests, %d passed, %d failed, of these %d with a refused pod", len(r), passed, len(r)-passed, refused)
}

func seconds(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }
