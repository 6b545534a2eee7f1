// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package local is package host done on the machine that the process runs on: facts from /proc, /sys and /etc, pod
// directories and container logs through os.Root, so that no name and no symbolic link leads out of them, hooks whose runs
// are recorded before they begin, and connections to the runtime's streaming server and to pods.
//
// It must not know who asks, or why, and it decides nothing about pods. Everything it creates is below the root
// directory, in a pod's log directory, or was asked for by name as a hostPath. One process at a time may use a root
// directory.
//
// # Concurrency
//
// A Host may be used by any number of goroutines. What changes the directories of one pod is done one after the other. A
// running hook has a goroutine of its own, which Close joins.
package local
