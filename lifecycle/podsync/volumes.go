// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/lifecycle/volume"
)

// prepare makes ready what a start needs. It comes before the kills: what runs is not stopped as long as nothing could
// take its place.
func (p *pass) prepare(ctx context.Context) error {
	timed, cancel := context.WithTimeout(ctx, volume.Timeout)
	defer cancel()
	if len(p.status.Containers) > 0 && !p.actions.CreateSandbox {
		p.refresh(timed)
	}
	if !p.actions.starts() {
		return nil
	}
	if p.facts = p.opts.Facts(); p.facts == nil {
		return errNoFacts
	}
	err := p.opts.Volumes.Prepare(timed, p.pod, p.actions.CreateSandbox)
	if err == nil {
		return nil
	}
	p.tellUnmounted(ctx, err)
	return fmt.Errorf("preparing volumes: %w", err)
}

// refresh brings the contents of the pod's volumes up to date. Whatever goes wrong, containers go on with what there is.
func (p *pass) refresh(ctx context.Context) {
	err := p.opts.Volumes.Refresh(ctx, p.pod)
	if err == nil {
		return
	}
	p.tellUnmounted(ctx, err)
	p.result.add(fmt.Errorf("bringing volumes up to date: %w", err))
}

// tellUnmounted tells what is wrong with each volume, and of all of them together if it has been so for too long.
func (p *pass) tellUnmounted(ctx context.Context, err error) {
	if untold(ctx, err) {
		return
	}
	var unmounted *volume.UnmountedError
	if !errors.As(err, &unmounted) {
		p.event(v1.EventTypeWarning, volume.ReasonMount, fmt.Sprintf("Unable to attach or mount volumes: %v", err))
		return
	}
	for _, cause := range unmounted.Causes {
		p.event(v1.EventTypeWarning, cause.Reason(), cause.Error())
	}
	if unmounted.TimedOut {
		p.event(v1.EventTypeWarning, volume.ReasonMount, unmounted.Summary())
	}
}
