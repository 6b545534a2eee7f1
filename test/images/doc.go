// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package images assembles the container images tests and demos run, from programs that are on this machine anyway, and
// writes them as one OCI archive that containerd can import. No registry and no image builder takes part.
//
// The images carry the names of the originals they stand for, so manifests and Kubernetes' own tests work unchanged:
//
//   - pause: upstream's own pause program, from scratch, run as its user 65535;
//   - busybox: Debian's static busybox with a link for each applet;
//   - agnhost: Kubernetes' test server on a busybox userland.
//
// For Kubernetes' own suite there is a larger set, and a [Registry] that serves an archive to those tests that pull.
//
// The same input gives the same bytes: files are in order, times are fixed, nothing of the machine goes in but the programs.
//
// # Concurrency
//
// Functions have no shared state, a Registry says what it allows. Archive may be called by several processes at once with one cache folder.
package images
