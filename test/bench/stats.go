// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// quantile returns the value of which the share q is not larger; q is from 0 to 1 and the values are not empty.
func quantile[T cmp.Ordered](values []T, q float64) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}

// figures are what was measured: samples by target, with the order of targets and metrics.
type figures struct {
	Targets []string           `json:"targets"`
	Metrics []string           `json:"metrics"`
	Samples map[string]samples `json:"samples"`
}

func newFigures(targets []string) *figures {
	f := &figures{Targets: targets, Samples: map[string]samples{}}
	for _, name := range targets {
		f.Samples[name] = samples{}
	}
	return f
}

// order lists the metrics, those of the first target first.
func (f *figures) order() {
	f.Metrics = nil
	for _, name := range f.Targets {
		for metric := range f.Samples[name] {
			if !slices.Contains(f.Metrics, metric) {
				f.Metrics = append(f.Metrics, metric)
			}
		}
	}
	slices.Sort(f.Metrics)
}

// print writes a table: the median of each figure with its spread, and its ratio to the first target, if that has it.
func (f *figures) print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprint(table, "median [least-most]")
	for _, name := range f.Targets {
		fmt.Fprintf(table, "\t%s", name)
	}
	fmt.Fprintln(table)
	for _, metric := range f.Metrics {
		fmt.Fprint(table, metric)
		for _, name := range f.Targets {
			fmt.Fprintf(table, "\t%s", cell(f.Samples[name][metric], f.Samples[f.Targets[0]][metric], name != f.Targets[0]))
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}

// cell is one figure for people, with its ratio to the base.
func cell(values, base []float64, ratio bool) string {
	if len(values) == 0 {
		return "-"
	}
	text := fmt.Sprintf("%s [%s-%s]", number(quantile(values, 0.5)), number(slices.Min(values)), number(slices.Max(values)))
	if ratio && len(base) > 0 && quantile(base, 0.5) > 0 {
		text += fmt.Sprintf(" x%.2f", quantile(values, 0.5)/quantile(base, 0.5))
	}
	return text
}

// number shows three digits, more only before the point.
func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}
