// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package safetext makes what the other end of a link says fit to be shown to people.
//
// It must not know who says it nor where it is shown.
//
// # Concurrency
//
// The functions and errors have no state that changes.
package safetext
