// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package probe asks containers whether they have started, are alive and are ready, as often as their spec says, and adds
// the answers up to results. The tries themselves are made next to the pod: commands by the runtime, everything that goes
// over the network by the host.
//
// It must not know what follows from a result: package podsync kills, package status tells. A try of which no answer came,
// because the link, the host or the runtime was away, says nothing about the container: it is neither counted nor told.
//
// # Clocks
//
// The initial delay of a probe counts from when this process first saw the container run, by its own clock. The container's
// start time comes from the host's clock, which may be another. After a restart of this process the delay counts anew.
//
// # Restart of this process
//
// Results are not kept. A container that is not known yet has result Unknown, which changes nothing of what the API shows
// of it, and its startup probe is not run again if the API shows the same container as started.
//
// # Concurrency
//
// The Manager owns one goroutine for each probe of each container, so that a probe that hangs delays nothing else, and so
// that a probe has at most one try under way. All end with Run's context, or when their pod is removed. All methods may be
// called by any number of goroutines and none but Run waits. The receiver of Updates must go on receiving while Run runs.
package probe
