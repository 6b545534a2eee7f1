// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policy is what the owner of a host allows the pods of a node to do to it.
//
// It judges the requests of the Container Runtime Interface, and of volumes on the host, as they arrive there: the node that
// sends them is not trusted, so nothing that a pod's spec or its labels say counts. A host without a policy allows everything.
// The package must not know of links, runtimes or the API; it only looks at requests and, for paths, at the file system.
//
// # Concurrency
//
// A Policy does not change. All methods may be called by several goroutines.
package policy
