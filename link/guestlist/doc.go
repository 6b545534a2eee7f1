// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package guestlist bounds how many peers may be there of whom nothing is known yet, so that those who only take up room keep nobody
// else out.
//
// It must not know what guests do, nor how they become known.
//
// # Concurrency
//
// A List may be used by any number of goroutines. It has none of its own.
package guestlist
