// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// deadline is a moment that can be moved, and a channel that is closed when it has passed.
type deadline struct {
	clock clock.WithDelayedExecution

	mu     sync.Mutex
	timer  clock.Timer
	expire chan struct{} // closed when the deadline passes; renewed when it is moved after that
	serial uint64        // tells a timer that fired after it was replaced
	hook   func()        // called when the deadline passes, nil if nobody wants to know
}

func newDeadline(clk clock.WithDelayedExecution) *deadline {
	return &deadline{clock: clk, expire: make(chan struct{})}
}

// set moves the deadline to t; zero means never.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.serial++
	if isClosed(d.expire) {
		d.expire = make(chan struct{})
	}
	if t.IsZero() {
		return
	}
	left := t.Sub(d.clock.Now())
	if left <= 0 {
		d.pass()
		return
	}
	serial := d.serial
	d.timer = d.clock.AfterFunc(left, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.serial == serial {
			d.pass()
		}
	})
}

// pass is called once for each moment that the deadline was set to, with mu held.
func (d *deadline) pass() {
	close(d.expire)
	if d.hook != nil {
		d.hook()
	}
}

// watch has do called if the deadline has passed or passes before stop is called. do must not block. There is one watcher at a time.
func (d *deadline) watch(do func()) (stop func() (passed bool)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hook = do
	if isClosed(d.expire) {
		do()
	}
	return func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.hook = nil
		return isClosed(d.expire)
	}
}

// wait returns a channel that is closed when the deadline passes, as long as it is not moved after that.
func (d *deadline) wait() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.expire
}

func (d *deadline) passed() bool { return isClosed(d.wait()) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
