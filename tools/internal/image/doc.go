// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package image assembles the container image of tombolo from its programs, without a builder: the same layers, settings and
// labels as the Dockerfile's, byte by byte the same for the same programs, version and time. It also lists what is in a program (SBOM).
//
// It must not know how the programs were built.
//
// # Concurrency
//
// The functions have no state.
package image
