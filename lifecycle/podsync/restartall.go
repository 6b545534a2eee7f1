// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// What a container waits for while all containers of its pod are restarted.
const (
	reasonRestartAll  = "RestartingAllContainers"
	messageRestartAll = "The container is removed because RestartAllContainers in place"
)

// killAtOnce kills all containers that are to be removed together: none of them gets a hook or a grace period, so there is
// no order to keep.
func (p *pass) killAtOnce(ctx context.Context) error {
	errs := make([]error, len(p.actions.ToKill))
	var wg sync.WaitGroup
	for i, k := range p.actions.ToKill {
		wg.Go(func() { errs[i] = p.callKiller(ctx, k) })
	}
	wg.Wait()
	p.result.Acted = true
	return errors.Join(errs...)
}

// restartAll removes the records of all containers one after the other. Their logs stay: they tell the restart counts.
func (p *pass) restartAll(ctx context.Context) error {
	for _, record := range p.actions.ToRemove {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.opts.Runtime.RemoveContainer(ctx, record.ID); err != nil {
			return fmt.Errorf("removing container %q to restart all: %w", record.Name, err)
		}
		p.result.Acted = true
		p.reasons.set(p.pod.UID, record.Name, waiting{reasonRestartAll, messageRestartAll})
	}
	if len(p.actions.ToRemove) > 0 {
		p.result.add(&retryError{until: p.opts.Clock.Now(), why: "all containers were removed to be started anew"})
	}
	return nil
}
