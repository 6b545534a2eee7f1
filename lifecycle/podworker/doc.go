// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podworker drives each pod through its life: one goroutine and one state machine per pod UID.
//
//	         Update(create, sync)
//	(none) ─────────────────────► SYNC ───────────────┐
//	                                │ terminatingAt set: deleted, terminal phase, killed, orphan, or ended by itself
//	                                ▼
//	                           TERMINATING  repeated until every container has stopped
//	                                │ terminatedAt set
//	                                ▼
//	                           TERMINATED   repeated until the pod's directories are released
//	                                │ finished
//	                                ▼
//	                           remembered until the UID is no longer desired
//
// The phase is derived from times that are only ever set, so it cannot go back. The steps themselves belong to the
// Steps interface; this package decides when which step runs, with what deadline, and that a step never acts on an
// observation older than the end of the step before it.
//
// It must not know what a step does, the runtime, the API client, or volumes.
//
// # Concurrency
//
// Workers may be used by any number of goroutines. Update never blocks. For one UID steps run one after the other; the
// newest update wins and intermediate ones are dropped. A running step is cancelled when its pod begins to
// terminate or its termination deadline gets shorter. Every goroutine belongs to Workers and ends when its pod is
// finished or the context of New ends; Wait joins them.
package podworker
