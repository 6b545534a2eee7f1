// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podcgroup makes the control groups of pods on the machine it runs on: one for each pod, below one for its quality
// of service class, below one of ours. The runtime puts containers below that of their pod.
//
// It writes the files of cgroup v1 and v2 through a library, directly or through systemd, whichever the container runtime
// uses. It must not know of the API or, but for the units of resources, of container runtimes; what a pod gets is decided elsewhere.
//
// # Concurrency
//
// A Manager may be used by several goroutines. Calls for the same pod must not overlap; the caller has a lock for each pod.
package podcgroup
