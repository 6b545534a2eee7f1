// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reverse lets a host connect to its node instead of the other way round. An Acceptor is the node's end: it takes
// connections of one host, the newest one counts, and hands them out as if it had dialled them. The host's end makes the
// connections, by way of a proxy if need be, and reads the greeting with which the node says whether it takes them.
//
// It must not know what goes over the connections, nor where certificates come from: the TLS configuration that it is given
// has to see to it that the other end shows one, and that it may be believed.
//
// # Concurrency
//
// An Acceptor may be used by any number of goroutines. It has one goroutine that accepts and one for each handshake that is
// under way; Close joins them.
package reverse
