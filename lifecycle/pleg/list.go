// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package pleg

import (
	"context"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/cri"
)

// snapshot is what a list tells of one pod.
type snapshot struct {
	uid        types.UID
	name       string
	namespace  string
	at         time.Time // when the list was begun
	sandboxes  []*runtimeapi.PodSandbox
	containers []*runtimeapi.Container
}

// list asks for everything that is ours, or for one pod. It is complete or fails.
func (p *PLEG) list(ctx context.Context, uid types.UID) (map[types.UID]*snapshot, time.Time, error) {
	at := p.o.Clock.Now()
	var sandboxes []*runtimeapi.PodSandbox
	var containers []*runtimeapi.Container
	calls, ctx := errgroup.WithContext(ctx)
	calls.Go(func() (err error) {
		sandboxes, err = p.o.Runtime.ListSandboxes(ctx, uid)
		return err
	})
	calls.Go(func() (err error) {
		containers, err = p.o.Runtime.ListContainers(ctx, uid)
		return err
	})
	if err := calls.Wait(); err != nil {
		return nil, at, err
	}
	return group(sandboxes, containers, at), at, nil
}

// group sorts sandboxes and containers by the pod they belong to. A container whose sandbox is gone still makes its pod
// visible; one that names no pod is left out.
func group(
	sandboxes []*runtimeapi.PodSandbox, containers []*runtimeapi.Container, at time.Time,
) map[types.UID]*snapshot {
	pods := map[types.UID]*snapshot{}
	pod := func(uid, name, namespace string) *snapshot {
		s := pods[types.UID(uid)]
		if s == nil {
			s = &snapshot{uid: types.UID(uid), name: name, namespace: namespace, at: at}
			pods[s.uid] = s
		}
		return s
	}
	for _, box := range sandboxes {
		if m := box.GetMetadata(); m.GetUid() != "" {
			s := pod(m.GetUid(), m.GetName(), m.GetNamespace())
			s.sandboxes = append(s.sandboxes, box)
		}
	}
	for _, c := range containers {
		if l := c.GetLabels(); l[cri.LabelPodUID] != "" {
			s := pod(l[cri.LabelPodUID], l[cri.LabelPodName], l[cri.LabelPodNamespace])
			s.containers = append(s.containers, c)
		}
	}
	return pods
}

// state is that of a container or sandbox.
type state int

const (
	absent state = iota
	created
	running
	exited
	unknown
)

// states returns the state of every container and sandbox by id.
func (s *snapshot) states() map[string]state {
	out := make(map[string]state, len(s.sandboxes)+len(s.containers))
	for _, box := range s.sandboxes {
		out[box.GetId()] = exited
		if box.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY {
			out[box.GetId()] = running
		}
	}
	for _, c := range s.containers {
		out[c.GetId()] = stateOf(c.GetState())
	}
	return out
}

func stateOf(s runtimeapi.ContainerState) state {
	switch cri.StateOf(s) {
	case cri.ContainerCreated:
		return created
	case cri.ContainerRunning:
		return running
	case cri.ContainerExited:
		return exited
	default:
		return unknown
	}
}

// mayRun says that something of the pod runs or cannot be ruled out to.
func (s *snapshot) mayRun() bool {
	for _, state := range s.states() {
		if state == running || state == unknown {
			return true
		}
	}
	return false
}

// compare returns what happened between two states of one pod's containers and sandboxes, and whether anything differs
// at all: a container that was created but not started is a change that is no event.
//
//	now      before   events
//	running  other    ContainerStarted
//	exited   other    ContainerDied
//	unknown  other    PodSync (the kubelet has no event for it, and learns of a lost container a minute later)
//	created  other    none
//	absent   exited   ContainerRemoved
//	absent   other    ContainerDied, ContainerRemoved
func compare(uid types.UID, before, now map[string]state) (events []Event, changed bool) {
	ids := slices.Collect(maps.Keys(before))
	for id := range now {
		if _, ok := before[id]; !ok {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	sync := false
	for _, id := range ids {
		was, is := before[id], now[id]
		if was == is {
			continue
		}
		changed = true
		switch is {
		case running:
			events = append(events, Event{UID: uid, Type: ContainerStarted, ContainerID: id})
		case exited:
			events = append(events, Event{UID: uid, Type: ContainerDied, ContainerID: id})
		case absent:
			if was != exited {
				events = append(events, Event{UID: uid, Type: ContainerDied, ContainerID: id})
			}
			events = append(events, Event{UID: uid, Type: ContainerRemoved, ContainerID: id})
		case unknown:
			sync = true
		case created:
		}
	}
	if sync {
		events = append(events, Event{UID: uid, Type: PodSync})
	}
	return events, changed
}
