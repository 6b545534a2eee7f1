// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import "time"

// Outage says that something has not answered for longer than is put up with.
type Outage struct {
	// Since is when the first request was sent that was not answered any more, by this process's clock.
	Since time.Time
	// Err is how the newest request failed.
	Err error
}

// health is the memory of whether something answers.
type health struct {
	patience time.Duration
	failures int
	since    time.Time
	err      error
	// down is set after patience and at least two failures, and cleared by the first answer.
	down bool
}

// next returns the memory after a request that was sent at sent and ended at now.
func (h health) next(sent, now time.Time, err error) health {
	if err == nil {
		return health{patience: h.patience}
	}
	if h.failures == 0 {
		h.since = sent
	}
	h.failures++
	h.err = err
	h.down = h.down || (h.failures >= 2 && now.Sub(h.since) >= h.patience)
	return h
}

// failing says that the newest request failed.
func (h health) failing() bool { return h.failures > 0 }

// outage returns what is wrong, nil while it is up or only just failing.
func (h health) outage() *Outage {
	if !h.down {
		return nil
	}
	return &Outage{Since: h.since, Err: h.err}
}
