// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build race

package scenario

// raceDetector says that the race detector watches, which makes everything about ten times slower.
const raceDetector = true
