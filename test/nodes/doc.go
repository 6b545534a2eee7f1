// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodes makes a node of a testbed host: with the real kubelet on it, or with Tombolo over one of its links. The two
// get equal hosts and equal settings, so that what they do may be compared.
//
// It must not know what is done with the nodes. A host is for one node: the kubelet kills every sandbox it does not know.
//
// # Concurrency
//
// Nodes of different hosts may be started at once. The methods of a Node may be called by several goroutines.
package nodes
