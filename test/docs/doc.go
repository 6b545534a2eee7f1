// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs finds the code blocks of the project's documents, so that each is tried: as a manifest, as values of the chart, as
// settings, or as commands. Which commands the end-to-end tests run, and why others are not run, is written down here.
//
// It knows nothing of what the commands do.
//
// # Concurrency
//
// Functions without shared state.
package docs
