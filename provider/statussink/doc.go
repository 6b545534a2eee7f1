// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package statussink is the Kubernetes API as the status manager sees it: it reads a pod, patches its status and deletes
// its object, each time only if the pod of that name still is the one with the given UID.
//
// It must not know what a status means, and it repeats nothing: its caller does.
//
// # Concurrency
//
// A Sink may be used by any number of goroutines. Calls end when their context does.
package statussink
