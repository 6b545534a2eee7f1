// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo shows Tombolo's main job on one machine: a real control plane, a "remote host" (a network namespace with a
// containerd of its own), tombolo host on it, tombolo node outside it, and a pod that kubectl creates, reads, enters and
// deletes. It leaves the cluster up; with the argument "down" it removes everything.
//
// It must not know anything a user could not do by hand: it only runs commands and prints them.
//
// # Concurrency
//
// One goroutine, which waits for every command it starts.
package main
