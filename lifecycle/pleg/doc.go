// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pleg finds out what runs: it lists sandboxes and containers of the runtime at short intervals, compares each
// pod with what it was, inspects pods that changed, keeps the newest observation of each in a cache and tells what
// changed by events. The name is the kubelet's: pod lifecycle event generator.
//
// It must not know what should run. Absence is concluded only from a complete list: a list that fails changes nothing.
//
// A relist lists everything and hands every changed pod to an inspection of its own, which asks for the status of the
// pod's sandboxes and containers. Inspections run beside each other and beside further relists, one per pod at a time, so
// that a container whose status never comes makes only its own pod stale. A pod whose inspection fails keeps its
// last good observation next to the error, and is inspected again after a pause that grows. A single pod is listed and
// inspected on demand: after our own actions (RequestRelist), to see their effect at once, and when somebody waits for an
// observation that is not there yet (GetNewerThan). A pod of which a container was killed is inspected once more a second
// later, when the runtime knows for what reason.
//
// # Watching
//
// A host may look at the runtime from beside it and tell which pods changed (host.PodWatcher). Then relists are rare: one
// when the watch begins, since anything may have happened before, one when the host's digest of everything is not ours at
// a moment at which nothing is under way, and one every few minutes as a safety net. Each pod that is named is listed and
// inspected alone, unless the digest that comes with its name is that of what is known of it. A worker that is busy with a pod
// causes most of what the host tells of it, and looks at it when it is done: Hold puts off other looks until then. While there is
// no watch everything is relisted every second, as in the kubelet.
//
// # Observation times
//
// The time of an observation is read from the local clock before its first call is made: whatever had happened by then is
// in it. Times of the host's clock are never compared with ours. GetNewerThan waits for an observation of that kind.
//
// # Concurrency
//
// Run owns one loop, which alone changes records and decides what is done, and the goroutines that make calls for it. All
// of them have ended when Run returns. The other methods may be called by any number of goroutines, before Run
// too. Observations are immutable once published. Events of one pod are in order, and the cache already holds the
// observation that an event came from, or a newer one.
package pleg
