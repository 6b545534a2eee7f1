// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/lifecycle"
)

// source is one watch of the API with the promises of lifecycle.PodSource: it compares snapshots, so that what happened in
// a gap comes as the difference, and asks for each pod that a list lacks.
type source struct {
	api    *API
	events chan lifecycle.PodEvent
	// trusts says that an empty list is taken as proof, for tests of the test.
	trusts bool
}

var _ lifecycle.PodSource = (*source)(nil)

func (a *API) source() *source {
	return &source{api: a, events: make(chan lifecycle.PodEvent)}
}

// Run delivers until ctx ends.
func (s *source) Run(ctx context.Context) {
	var known map[types.UID]*v1.Pod
	for ctx.Err() == nil {
		pods, changed, ok := s.api.snapshot()
		if ok {
			ok = s.api.call(ctx, "Watch", "", func(context.Context) error { return nil }) == nil
		}
		if !ok {
			s.pause(ctx, changed)
			continue
		}
		doubt := s.confirm(ctx, known, pods)
		events := difference(known, pods)
		if known == nil {
			events = append(events, lifecycle.PodEvent{Type: lifecycle.SourceSynced})
		}
		known = pods
		for _, ev := range events {
			select {
			case <-ctx.Done():
				return
			case s.events <- ev:
			}
		}
		if doubt {
			s.pause(ctx, changed)
			continue
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
}

// pause waits before the next try.
func (s *source) pause(ctx context.Context, changed <-chan struct{}) {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-changed:
	}
}

// confirm keeps pods that a list lacks until a live read says that they are gone. It returns whether some are in doubt.
func (s *source) confirm(ctx context.Context, known, pods map[types.UID]*v1.Pod) (doubt bool) {
	for uid, p := range known {
		if pods[uid] != nil {
			continue
		}
		live, err := s.lookUp(ctx, p.Namespace, p.Name)
		switch {
		case err == nil && live.UID == uid:
			pods[uid], doubt = live, true
		case err != nil && !errdefs.IsNotFound(err):
			pods[uid], doubt = p, true
		}
	}
	return doubt
}

// Events delivers the changes.
func (s *source) Events() <-chan lifecycle.PodEvent { return s.events }

// Live reads a pod past the watch.
func (s *source) Live(ctx context.Context, namespace, name string) (*v1.Pod, error) {
	return s.lookUp(ctx, namespace, name)
}

func (s *source) lookUp(ctx context.Context, namespace, name string) (*v1.Pod, error) {
	if pods, _, ok := s.api.snapshot(); s.trusts && ok && len(pods) == 0 {
		return nil, fmt.Errorf("pod %q: %w", name, errdefs.ErrNotFound)
	}
	return s.api.GetPod(ctx, namespace, name)
}

// difference is what changed between two snapshots, in the order of lifecycle.PodSource.
func difference(before, after map[types.UID]*v1.Pod) []lifecycle.PodEvent {
	var events []lifecycle.PodEvent
	for uid, p := range before {
		if after[uid] == nil {
			events = append(events, lifecycle.PodEvent{Type: lifecycle.PodRemoved, Pod: p})
		}
	}
	for uid, p := range after {
		switch old := before[uid]; {
		case old == nil:
			events = append(events, lifecycle.PodEvent{Type: lifecycle.PodAdded, Pod: p})
		case old == p:
		case wantsOther(old, p):
			events = append(events, lifecycle.PodEvent{Type: lifecycle.PodUpdated, Pod: p})
		case !equality.Semantic.DeepEqual(&old.Status, &p.Status):
			events = append(events, lifecycle.PodEvent{Type: lifecycle.PodReconciled, Pod: p})
		}
	}
	order := []lifecycle.PodEventType{
		lifecycle.PodRemoved, lifecycle.PodAdded, lifecycle.PodUpdated, lifecycle.PodReconciled,
	}
	slices.SortFunc(events, func(a, b lifecycle.PodEvent) int {
		return cmp.Or(
			cmp.Compare(slices.Index(order, a.Type), slices.Index(order, b.Type)), cmp.Compare(a.Pod.UID, b.Pod.UID),
		)
	})
	return events
}

func wantsOther(a, b *v1.Pod) bool {
	return !equality.Semantic.DeepEqual(a.DeletionTimestamp, b.DeletionTimestamp) ||
		!equality.Semantic.DeepEqual(a.DeletionGracePeriodSeconds, b.DeletionGracePeriodSeconds) ||
		!equality.Semantic.DeepEqual(a.Labels, b.Labels) ||
		!equality.Semantic.DeepEqual(a.Annotations, b.Annotations) ||
		!equality.Semantic.DeepEqual(&a.Spec, &b.Spec)
}
