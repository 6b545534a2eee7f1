// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hostpb is the wire form of package host: the service tombolo.host.v1.HostService in host.proto and the Go code
// generated from it with `make generate`. Only package host/remote uses it.
//
// # Concurrency
//
// Messages are plain data and not safe for concurrent writes; clients may be shared.
package hostpb
