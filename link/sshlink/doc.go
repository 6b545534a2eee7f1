// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sshlink reaches a host on which there is nothing but an SSH server. A Dialer logs in, over jump hosts if there are
// any, puts this program on the host unless it is there already, starts it and yields its standard input and output as a
// net.Conn. Nothing is left running on the host when the connection ends.
//
// Every host key is checked, and what is on the host is run only after its checksum was verified there in the same breath.
// Errors say what is wrong in an operator's words, and what to do about it.
//
// It must not know what goes over the connections nor what the program does. All that it needs on the host is a POSIX shell,
// uname and sha256sum, as coreutils and busybox have them.
//
// # Concurrency
//
// A Dialer may be used by any number of goroutines. A connection has one goroutine of its own, which Close joins.
package sshlink
