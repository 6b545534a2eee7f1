// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"slices"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// restartAll removes every record of the pod's init and regular containers: first those of the containers that only have
// to follow, then those of the ones that asked for it, whose newest records go last of all. So a removal that is cut short
// is seen and goes on in the next sync. Ephemeral containers stay.
func (p *plan) restartAll() {
	type rank struct {
		order  int
		record *cri.ContainerStatus
	}
	var all []rank
	for i := range p.Status.Containers {
		record := &p.Status.Containers[i]
		if order, ok := p.removalOrder(record); ok {
			all = append(all, rank{order, record})
		}
	}
	// Records come newest first; the oldest of a container goes first.
	slices.Reverse(all)
	slices.SortStableFunc(all, func(a, b rank) int { return a.order - b.order })
	for _, r := range all {
		if r.record.MayRun() {
			p.kill(r.record, KillRestartAll, "The container is removed because RestartAllContainers in place")
		}
		p.actions.ToRemove = append(p.actions.ToRemove, r.record)
	}
}

// removalOrder returns the place of a record among those to be removed; ok is false for one that stays.
func (p *plan) removalOrder(record *cri.ContainerStatus) (order int, ok bool) {
	const newestSource = 4
	c, kind := podrules.Find(p.Pod, record.Name)
	switch kind {
	case podrules.NoContainer, podrules.EphemeralContainer:
		return 0, false
	case podrules.InitContainer, podrules.Sidecar:
		order = 1
	}
	if podrules.IsRestartAllSource(p.Status, c) {
		order += 2
		if record == p.Status.Newest(c.Name) {
			order += newestSource
		}
	}
	return order, true
}
