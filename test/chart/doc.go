// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chart renders the Helm chart charts/tombolo with the real helm, for the tests beside it and for end-to-end tests, and
// writes what is generated from it: the table of values in its README and the plain manifests of deploy/kubernetes.
//
// It must not know what the program does with the flags that the chart gives it.
//
// # Concurrency
//
// The functions may be called by any number of goroutines; each runs a helm of its own.
package chart
