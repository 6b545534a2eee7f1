// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Command tombolo ties a machine that runs nothing but containerd to a Kubernetes cluster. Its sub-commands are
// "node", which registers the machine and runs its pods, "host", which stands beside containerd on the machine,
// "pki", which makes the certificates for the link between the two, and "version".
//
// This package turns flags into options and options into running parts, and decides nothing else. Each sub-command has
// its own file. Exit codes: 0 for success and for an orderly stop by a signal, 1 when the work failed, 2 when the
// command line or the environment was wrong.
//
// # Concurrency
//
// One sub-command runs per process, from run. The first SIGINT or SIGTERM cancels its context; a second one ends the
// process at once.
package main
