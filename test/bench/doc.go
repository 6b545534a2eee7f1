// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures what a node costs: the life of one pod and of many at once, a restart, and being idle. It measures
// bare CRI, the real kubelet, Tombolo over a unix socket and Tombolo over TLS in turn, round by round, on equal hosts of one
// control plane, and prints each figure with its ratio to bare CRI, since figures of different machines and hours say little.
//
// It never judges: there is no time at which it fails. It must not know anything of how a node works but its processes.
//
// # Concurrency
//
// One target works at a time. Pods of a burst are created by one goroutine each, and one goroutine watches them.
package main
