// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package calmlog keeps peers from filling the log, above all those of whom nothing is known. Who can only be refused can be refused as often as the
// network carries: the first lines are written, then one now and then that says how many were left out.
//
// It must not know what the lines are about. Counting is for metrics.
//
// # Concurrency
//
// A Log may be used by any number of goroutines.
package calmlog
