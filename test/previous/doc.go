// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package previous builds the tombolo that users upgrade from: the last release, or the commit before the newest change of
// the product as long as there is no release. Tests replace it with the one under test, and back.
//
// It knows git and the go command, and nothing of what the program does.
//
// # Concurrency
//
// Functions without shared state. Any number of processes may build into one cache folder at once: a binary appears there
// by a rename.
package previous
