// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package events records events of pods and of the node with the API, as the kubelet's own: component "kubelet", host
// the node's name, so that `kubectl describe` and everything else that filters by source finds them.
//
// It must not know what an event means. Repeated events are counted up and floods are cut by client-go's correlator,
// with the kubelet's bounds.
//
// # Concurrency
//
// A Recorder may be used by any number of goroutines. Recording never blocks: events wait in a bounded queue for the
// API and are dropped when it is full. Stop ends the writing of events; the write that is under way is cancelled and
// ends by itself.
package events
