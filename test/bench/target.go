// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"
)

// A target runs pods of one container that does nothing. Its methods are called one at a time.
type target interface {
	name() string
	// start makes pods of these names at once and returns how long each took to be seen ready, in no order.
	start(ctx context.Context, names []string) ([]time.Duration, error)
	// remove removes pods at once and returns how long each took to be gone, in no order.
	remove(ctx context.Context, names []string) ([]time.Duration, error)
	// crash kills the container of a pod and returns how long it took to be seen running again; errNoSuch if nobody
	// restarts it.
	crash(ctx context.Context, name string) (time.Duration, error)
	// usage is what the processes that make the node have used so far; errNoSuch if there are none.
	usage() (usage, error)
}

// errNoSuch says that a target has nothing to be measured of a kind.
var errNoSuch = errors.New("there is no such thing to measure")

// usage is what processes have used.
type usage struct {
	cpu    time.Duration
	memory int64 // resident, in bytes
	writes int   // requests that change something in the API, without those for events
	events int   // requests for events
}
