// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package machine watches the machine behind the link: it asks the host for its facts and the container runtime for its
// state every few seconds, and remembers since when either of them does not answer. The node's status, the lifecycle
// engine and the kubelet API read what it knows.
//
// A single lost answer changes nothing: the link counts as down after eight seconds without an answer, the runtime after
// the kubelet's thirty. It must not know what becomes of the node or of its pods then.
//
// # Concurrency
//
// Monitor.Run owns the polling and every call it makes, and joins them before it returns. All other methods may be
// called by any number of goroutines and never block; the states they return are shared and must not be changed.
package machine
