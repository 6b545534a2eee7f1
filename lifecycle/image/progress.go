// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
)

// progressInterval is how long a pull goes on from one event that says so to the next.
const progressInterval = time.Minute

// telling calls pull, and tells by events that it goes on if it takes long. How far it has come the runtime does not say.
func (m *Manager) telling(r *request, began time.Time, pull func()) {
	ended := make(chan struct{})
	var teller sync.WaitGroup
	teller.Go(func() { m.tellProgress(r, began, ended) })
	defer teller.Wait()
	defer close(ended)
	pull()
}

func (m *Manager) tellProgress(r *request, began time.Time, ended <-chan struct{}) {
	timer := m.clock.NewTimer(progressInterval)
	defer timer.Stop()
	for {
		select {
		case <-ended:
			return
		case <-timer.C():
			m.event(r, v1.EventTypeNormal, eventPulling, fmt.Sprintf("Still pulling image %q after %v", r.named, m.clock.Since(began).Truncate(time.Second)))
			timer.Reset(progressInterval)
		}
	}
}
