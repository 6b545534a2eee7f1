// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package termination stops containers with care: the preStop hook once, then the stop signal, then the kill, all inside
// one budget that ends at an absolute deadline and never grows by being tried again. When every container of a pod has stopped, and
// not before, it stops the pod's sandboxes.
//
//	Killing event ─► preStop hook ─► stop signal … kill ─┐
//	Killing event ─► preStop hook ─► stop signal … kill ─┼─► StopSandbox, one after the other
//	                (all containers at once)             ─┘
//
// All hooks begin at once. A sidecar's stop signal waits for the end of the regular containers and of the sidecars behind
// it in the spec, at most until the deadline. The order is taken from the observation of each call, so that it also holds
// after an error or in a new process; of an orphan nobody knows which containers were sidecars, so that all get their
// signal at once.
//
// Every step may be done again: after an error or a cancellation the caller calls again with a fresh observation, and
// what was done is not repeated. The hook belongs to the host (host.HookRunner runs it once per container and lets a
// second call join it), the signal and the kill are idempotent in the runtime.
//
// It must not know why a pod ends, when it is worth trying again, or anything of the pod's status in the API.
//
// # Concurrency
//
// A Terminator may be used by any number of goroutines for different pods. For one pod UID calls are made one after the
// other, as a pod worker does. Goroutines are joined before a call returns. Cancelling ctx ends a call early: hooks
// and stopping containers are left as they are on the host for the next call to join.
package termination
