// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package downward says what the downward API tells a pod of itself: fields of its metadata and resources of its
// containers, as environment variables and files show them. Values that only the node knows, such as addresses, are not
// its business.
//
// # Concurrency
//
// Pure functions; arguments are neither kept nor changed.
package downward
