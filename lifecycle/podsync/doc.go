// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podsync brings what runs of a pod closer to what its spec asks for: one call of Sync compares a fresh
// observation with the spec (ComputeActions, pure) and does what follows (everything else): kill what must go, make the
// sandbox, start the next init container or the regular ones.
//
//	ComputeActions ─► volumes ─► kills ─► removals (all are restarted) ─► prune init records ─► sandbox
//	    ─► resources of what runs ─► awaited postStart hooks ─► ephemeral ─► init and sidecar ─► regular containers
//
// A step that fails ends the sync, except that only a regular init container holds up the others. Nothing is remembered
// between syncs but why containers wait (shown in their status), the crash-loop back-off and which postStart hooks ended:
// the next sync begins with what the runtime then says, so a call whose answer was lost is simply seen. A hook whose end
// is not remembered is asked for again; the host runs it once and knows how it ended.
//
// New pods pass a gate that bounds how many make their sandbox or first containers at once. Whatever ran before never
// waits there.
//
// It must not know phases and conditions of the API (package status), when a pod is synced again (package podworker), or
// how a pod ends (package termination).
//
// # Concurrency
//
// A Syncer may be used by any number of goroutines for different pods. For one pod UID calls of Sync are made one after
// the other, each with an observation that is newer than the end of the one before. Cancelling ctx, as a pod worker does
// when the pod is deleted, ends a sync before its next step and abandons an image pull or the making of a sandbox; a
// container that is being created or started is not abandoned, so that it is not started behind the back of the
// termination that follows.
package podsync
