// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apierr turns errors of the Kubernetes API into the classes of github.com/containerd/errdefs. It is the one
// place where that happens: nothing above it asks for HTTP codes or status reasons.
//
// It must not know who asked or what for.
//
// # Concurrency
//
// There is no state.
package apierr
