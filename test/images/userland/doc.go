// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Command userland is the programs of the images that no package of this machine has as a static binary. Like busybox it
// acts by the name it is called: curl asks one URL, nnp prints its effective user.
//
// It knows only what Kubernetes' own tests ask of those programs, and must not know the tests.
//
// # Concurrency
//
// One goroutine.
package main
