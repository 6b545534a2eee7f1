// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestTrapsAreSetWhileCallsAreMade is for the race detector: a history sets traps while the node works.
func TestTrapsAreSetWhileCallsAreMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.StartNode()
		n := w.node
		var calls sync.WaitGroup
		calls.Go(func() {
			for !n.dead.Load() {
				_ = w.do(n, "StopContainer", func() error { return nil })
				time.Sleep(time.Nanosecond)
			}
		})
		for range 100 {
			w.SetTrap(Trap{Method: "StopContainer", After: true}, time.Second)
			time.Sleep(time.Nanosecond)
		}
		calls.Wait()
		w.traps.disarm()
		if w.node == n || w.node == nil {
			t.Error("no new node was started after the trap")
		}
		w.close()
	})
}
