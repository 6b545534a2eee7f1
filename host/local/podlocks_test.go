// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestAPodThatIsHeldUpHoldsUpNoOther(t *testing.T) {
	h, _ := newTestHost(t)
	defer h.lockPod("slow")()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 1000 {
			h.lockPod(types.UID(fmt.Sprint(i)))()
		}
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("another pod waits for the one that is held up")
	}
}

func TestWhatChangesOnePodIsDoneOneAfterTheOther(t *testing.T) {
	var locks podLocks
	var all sync.WaitGroup
	changes := 0 // the race detector sees two at once
	for range 100 {
		all.Go(func() {
			defer locks.lock("a")()
			changes++
		})
	}
	all.Wait()
	if changes != 100 || len(locks.pods) != 0 {
		t.Errorf("%d changes and %d locks that nobody needs, want 100 and 0", changes, len(locks.pods))
	}
}
