// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podrules holds the small questions about a pod that several parts of the engine ask and must answer alike:
// which containers it has, may an ended one start again, does the pod need a new sandbox, had it got past its init
// containers, is its phase final, how long is its grace period, what is the host asked to do for a hook or a probe. What a
// pod does (package podsync) and what is said of it (package status) differ as soon as one of these has two answers.
//
// It must not know who asks, or anything but a pod and one observation of it in the runtime.
//
// # Concurrency
//
// Every function is pure. None keeps or changes its arguments.
package podrules
