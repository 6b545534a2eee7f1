// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package check looks at everything that a node needs before it can run pods: the way to its host, the machine there, the
// certificates, the Kubernetes API and the rights of the node. Observe gathers what there is to know and changes nothing, neither
// on the host nor in the cluster. Judge turns it into findings, each with what to do about it, and is pure.
//
// It must not know flags or how findings are printed. A new kind of link needs nothing here: hostconn knows how a host is reached.
//
// # Concurrency
//
// Observe asks the host and the API at the same time and has joined both when it returns. Everything else is free of goroutines.
package check
