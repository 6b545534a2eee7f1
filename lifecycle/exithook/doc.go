// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package exithook runs the preStop hooks of containers that ended by themselves, for pods that ask for it with the
// annotation tombolo.dev/prestop-on-exit. It comes between the end of the last regular container and the stop of the
// sandbox, and takes from the pod's grace period.
//
// An exec hook runs in a fresh container in the pod's sandbox (cri.ContainerInput.ExitHook). The record of that container
// is the database: its name can be given only once, so whatever was lost of a process, the next one finds
//
//	no record ─► create ─► created ─► start ─► running ─► wait ─► exited: done, never again
//
// An httpGet or sleep hook is run by the host, which keeps the record. A container whose ordinary hook was ever begun, which
// the host knows too, gets no second one.
//
// It must not know how a pod's phase is computed or how containers are stopped. What is due (Due) is computed from
// a pod and an observation alone; the rest is effects.
//
// # Concurrency
//
// A Runner may be used by any number of goroutines for different pods, and by one at a time for each pod UID, as a pod worker
// does. Run joins its goroutines. A cancelled ctx leaves hooks running for the next call to join.
package exithook
