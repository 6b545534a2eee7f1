// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"
)

const (
	// lockTimeout is how long another process may have the lock: one that hangs must not keep everybody waiting for ever.
	lockTimeout = 10 * time.Second
	lockPause   = 20 * time.Millisecond
)

// locked runs do while no other process, and no other caller in this one, has the lock.
func locked(ctx context.Context, clk clock.Clock, path string, do func() error) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("locking %s: %w", path, err)
	}
	defer file.Close() // and with it the lock ends
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return do()
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("locking %s: %w", path, err)
		}
		timer := clk.NewTimer(lockPause)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("another process has the lock %s and does not give it back: %w", path, ctx.Err())
		}
	}
}
