// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hostconn connects a node to its host, wherever that is: to a host process over a link, or to the container
// runtime of the same machine with the host part in this process. What comes out looks the same either way.
//
// It must not know what the node does with the connection.
//
// # Concurrency
//
// A Connection may be used by any number of goroutines until Close.
package hostconn
