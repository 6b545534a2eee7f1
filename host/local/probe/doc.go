// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package probe makes single tries of probes that go over the network, and the requests of hooks, from the machine the
// process runs on. What it says of a try is what the kubelet says, word for word: people and tests match on it.
//
// It must not know pods or containers, thresholds or periods. It keeps nothing between two tries.
//
// # Concurrency
//
// Its functions may be called by any number of goroutines. When one returns, its connections are closed and the
// goroutines of the libraries that it used are ending.
package probe
