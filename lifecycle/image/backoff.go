// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
)

// pullBackoff remembers, for each image of each pod, how long not to try again and why the last pull failed.
type pullBackoff struct {
	clock  clock.Clock
	delays *flowcontrol.Backoff

	mu sync.Mutex
	// last holds the last failure of each image, as "<reason>: <message>".
	last map[types.UID]map[string]string
}

func newPullBackoff(clk clock.Clock) *pullBackoff {
	delays := flowcontrol.NewBackOff(InitialBackoff, MaxBackoff)
	delays.Clock = clk
	return &pullBackoff{clock: clk, delays: delays, last: map[types.UID]map[string]string{}}
}

// waiting says whether the image must not be pulled yet, and the last failure.
func (b *pullBackoff) waiting(uid types.UID, image string) (last string, waiting bool) {
	if !b.delays.IsInBackOffSinceUpdate(backoffKey(uid, image), b.clock.Now()) {
		return "", false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last[uid][image], true
}

func (b *pullBackoff) failed(uid types.UID, image string, err *Error) {
	b.delays.Next(backoffKey(uid, image), b.clock.Now())
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last[uid] == nil {
		b.last[uid] = map[string]string{}
	}
	b.last[uid][image] = err.WaitingReason() + ": " + err.Error()
}

// forget drops everything about the pod.
func (b *pullBackoff) forget(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for image := range b.last[uid] {
		b.delays.DeleteEntry(backoffKey(uid, image))
	}
	delete(b.last, uid)
}

func backoffKey(uid types.UID, image string) string {
	return string(uid) + "_" + image
}
