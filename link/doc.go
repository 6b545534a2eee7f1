// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package link is how a node reaches a host. A Link dials one target and knows how the connection is doing: whether it is
// up, since when, and what the last error was. A Connector is the host's end where it is the host that connects. Certificates are the
// identities of both ends of a link; they are read again when their files change. How a host is reached over SSH is in sshlink,
// how hosts are taken that connect by themselves in reverse.
//
// It must not know what goes over the connections, and imports nothing of this module but what is below it. A new kind of link is a new
// scheme in ParseTarget and a new dial function.
//
// # Concurrency
//
// Everything here may be used by any number of goroutines. The only goroutines are those of sshlink and reverse.
package link
