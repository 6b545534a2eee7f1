// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cri is the edge to the container runtime: a thin typed client for the Container Runtime Interface over any
// gRPC connection, and pure functions from a pod to CRI configuration and from CRI status to facts.
//
// It must not know how the connection was made (package link), what should run or why (package lifecycle), or anything
// of the Kubernetes API beyond its types. It decides nothing: deadlines, error classes and metrics are all it adds to a
// call. Errors that leave this package are of the classes of github.com/containerd/errdefs; gRPC codes never do.
//
// # Concurrency
//
// A Client may be used by any number of goroutines. The pure functions keep no state and change none of their arguments,
// but AssemblePodStatus, which sorts its slices. Messages and slices that are handed over to become part of a
// configuration are not copied.
package cri
