// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package remote carries package host over gRPC. A Server serves a host's services and forwards the Container Runtime
// Interface to the machine's runtime; NewClient is the other end and looks like any other host.
//
// Before anything else both ends tell each other which protocols they speak, and refuse each other if they have none in common.
//
// It must not know how a connection was made or secured, and it decides nothing about pods: it adds deadlines, error
// classes, metrics and flow control. gRPC codes end here: errors that leave NewClient's methods are of the classes of
// github.com/containerd/errdefs.
//
// # Concurrency
//
// Server and client may be used by any number of goroutines. A call that changes what runs on the machine goes on when its
// caller is gone (see effects). A Server ends its goroutines before Serve returns. A byte
// stream of DialStreaming and DialPod has one goroutine, which ends when the stream breaks, and seconds after Close.
package remote
