// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gc removes what pods leave behind: dead containers with their logs, stopped sandboxes, and the directories of
// pods that are gone. Of a pod that still exists the newest dead record of each container and the newest sandbox stay,
// for `kubectl logs --previous` and because they are the engine's memory; of a pod that was ended to free the disk only the
// sandbox does, and of a pod that is gone nothing.
//
// It must not know why a pod is gone: it asks whether the content of a UID may be removed, and takes anything short of a
// yes for a no. Nothing that runs is ever touched, and nothing is concluded from a list that did not arrive whole.
//
// # Concurrency
//
// A Collector may be used by any number of goroutines. Run is called once, blocks, and joins what it started. Collect
// may run beside it; a pod that is being swept already is left alone by the second. What belongs to one pod is removed one
// after the other; a pod whose removal hangs takes one of a few places and delays no other pod beyond that.
package gc
