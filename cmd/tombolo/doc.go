// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Command tombolo ties a machine that runs nothing but containerd to a Kubernetes cluster. Its sub-commands are
// "node", which registers the machine and runs its pods, "host", which stands beside containerd on the machine,
// "check", which says what is in the way of a node, "pki", which makes the certificates for the link between node and host, "token",
// which makes tokens by which a host gets one from its node, "config", which writes and checks files of settings, "completion" and
// "version".
//
// This package turns flags into options and options into running parts, and decides nothing else. Each sub-command has
// its own file. The flags are the one list of settings; package settings gives them values from the environment and from files.
// Exit codes are in exitCodes.
//
// # Concurrency
//
// One sub-command runs per process, from run. The first SIGINT or SIGTERM cancels its context; a second one ends the
// process at once.
package main
