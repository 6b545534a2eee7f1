// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package gc

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/cri"
)

// plan says what of one pod is removed, in this order.
type plan struct {
	uid        types.UID
	containers []deadContainer
	sandboxes  []deadSandbox
	// everything says that the pod is gone: its directory and logs go too, once nothing of it is in the runtime.
	everything bool
	// spent says that none of its dead containers stays, although the pod exists.
	spent bool
	// remains says that the runtime has something of the pod that is not removed here.
	remains bool
}

type deadContainer struct {
	id string
	// unknown says that the runtime lost it: it may be running, so it is stopped first.
	unknown bool
}

type deadSandbox struct {
	id string
	// containers are those of its containers that have to be gone before.
	containers []string
}

// planAll plans for every pod that the runtime has something of. Objects without a UID are nobody's.
func (c *Collector) planAll(sandboxes []*runtimeapi.PodSandbox, containers []*runtimeapi.Container) map[types.UID]*plan {
	sandboxesOf := map[types.UID][]*runtimeapi.PodSandbox{}
	for _, s := range sandboxes {
		uid := types.UID(s.GetMetadata().GetUid())
		sandboxesOf[uid] = append(sandboxesOf[uid], s)
	}
	containersOf := map[types.UID][]*runtimeapi.Container{}
	for _, container := range containers {
		uid := types.UID(container.GetLabels()[cri.LabelPodUID])
		containersOf[uid] = append(containersOf[uid], container)
	}
	plans := map[types.UID]*plan{}
	for uid := range sandboxesOf {
		plans[uid] = c.planPod(uid, sandboxesOf[uid], containersOf[uid])
	}
	for uid := range containersOf {
		if _, done := plans[uid]; !done {
			plans[uid] = c.planPod(uid, nil, containersOf[uid])
		}
	}
	delete(plans, "")
	return plans
}

// planPod plans for one pod.
func (c *Collector) planPod(uid types.UID, sandboxes []*runtimeapi.PodSandbox, containers []*runtimeapi.Container) *plan {
	removable, known := c.opts.Pods(uid)
	p := &plan{uid: uid, everything: removable, spent: c.opts.Spent != nil && c.opts.Spent(uid)}
	if !removable && !known {
		p.remains = true
		return p
	}
	p.planContainers(containers)
	p.planSandboxes(sandboxes, containers)
	return p
}

// planContainers takes every container that does not run. While the pod exists and is not spent, the newest of each name that has
// run stays, and one that was made after it and is still to start. The newest is the one with the highest restart number: the
// runtime does not know when a container that it lost was created, and the host's clock may have been set back.
func (p *plan) planContainers(containers []*runtimeapi.Container) {
	containers = slices.Clone(containers)
	slices.SortFunc(containers, func(a, b *runtimeapi.Container) int {
		return cmp.Or(
			cmp.Compare(b.GetMetadata().GetAttempt(), a.GetMetadata().GetAttempt()),
			cmp.Compare(b.GetCreatedAt(), a.GetCreatedAt()),
			cmp.Compare(b.GetId(), a.GetId()),
		)
	})
	seen, kept := map[string]bool{}, map[string]bool{}
	for _, c := range containers {
		name := c.GetMetadata().GetName()
		newest, created := !seen[name], c.GetState() == runtimeapi.ContainerState_CONTAINER_CREATED
		seen[name] = true
		switch {
		case c.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING:
			p.remains = true
		case !p.everything && !p.spent && created && newest:
			p.remains = true // it may be being started: the one that ended before it has the log of the previous run
		case !p.everything && !p.spent && !created && !kept[name]:
			kept[name], p.remains = true, true
		default:
			p.containers = append(p.containers, deadContainer{
				id: c.GetId(), unknown: c.GetState() == runtimeapi.ContainerState_CONTAINER_UNKNOWN,
			})
		}
	}
	slices.Reverse(p.containers) // the oldest first
}

// planSandboxes takes every sandbox that is not ready and whose containers all go, except the newest while the pod
// exists.
func (p *plan) planSandboxes(sandboxes []*runtimeapi.PodSandbox, containers []*runtimeapi.Container) {
	going := map[string]bool{}
	for _, c := range p.containers {
		going[c.id] = true
	}
	inside, occupied := map[string][]string{}, map[string]bool{}
	for _, c := range containers {
		id := c.GetPodSandboxId()
		inside[id] = append(inside[id], c.GetId())
		occupied[id] = occupied[id] || !going[c.GetId()]
	}
	sandboxes = slices.Clone(sandboxes)
	slices.SortFunc(sandboxes, func(a, b *runtimeapi.PodSandbox) int {
		return cmp.Or(
			cmp.Compare(b.GetMetadata().GetAttempt(), a.GetMetadata().GetAttempt()),
			cmp.Compare(b.GetCreatedAt(), a.GetCreatedAt()),
			cmp.Compare(b.GetId(), a.GetId()),
		)
	})
	for i, s := range sandboxes {
		newest := i == 0 && !p.everything
		if newest || occupied[s.GetId()] || s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY {
			p.remains = true
			continue
		}
		p.sandboxes = append(p.sandboxes, deadSandbox{id: s.GetId(), containers: inside[s.GetId()]})
	}
	slices.Reverse(p.sandboxes)
}
