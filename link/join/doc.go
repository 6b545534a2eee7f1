// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package join gives a host that connects to its node a certificate without anybody carrying keys around. A token, made beside the
// node and good for once, tells the host which authority to believe and the node which host it is. The host makes its own key; what
// it gets is a certificate for its own name, which it renews in time with the one it has.
//
// The node's side is a Ledger, the directory with the node's own authority, its tokens and the certificates that are good, and a
// Desk, which answers hosts. The host's side is Ask, and a Keeper that renews.
//
// It must not know how hosts are reached nor what they are for.
//
// # Concurrency
//
// Everything here may be used by any number of goroutines, and a ledger by any number of processes. There are no goroutines: a
// Keeper runs in that of its caller.
package join
