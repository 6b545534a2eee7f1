// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsource

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/lifecycle"
)

// snapshot is every pod of the node at one moment.
type snapshot map[types.UID]*v1.Pod

// diff says what changed between two snapshots: removals first, so that what a new pod needs is free, then additions,
// updates and last what changed in status only. Within each kind older pods come first.
func diff(before, after snapshot) []lifecycle.PodEvent {
	var events []lifecycle.PodEvent
	for uid, pod := range before {
		if _, ok := after[uid]; !ok {
			events = append(events, lifecycle.PodEvent{Type: lifecycle.PodRemoved, Pod: pod})
		}
	}
	for uid, pod := range after {
		old, known := before[uid]
		switch {
		case !known:
			events = append(events, lifecycle.PodEvent{Type: lifecycle.PodAdded, Pod: pod})
		case old == pod:
		case wantsOther(old, pod):
			events = append(events, lifecycle.PodEvent{Type: lifecycle.PodUpdated, Pod: pod})
		case !equality.Semantic.DeepEqual(&old.Status, &pod.Status):
			events = append(events, lifecycle.PodEvent{Type: lifecycle.PodReconciled, Pod: pod})
		}
	}
	slices.SortFunc(events, func(a, b lifecycle.PodEvent) int {
		return cmp.Or(
			cmp.Compare(rank(a.Type), rank(b.Type)),
			a.Pod.CreationTimestamp.Compare(b.Pod.CreationTimestamp.Time),
			cmp.Compare(a.Pod.UID, b.Pod.UID),
		)
	})
	return events
}

// wantsOther says that the two versions of a pod ask for something different. Status, owners, finalizers and the
// bookkeeping of the API do not count.
func wantsOther(a, b *v1.Pod) bool {
	return !equality.Semantic.DeepEqual(a.DeletionTimestamp, b.DeletionTimestamp) ||
		!equality.Semantic.DeepEqual(a.DeletionGracePeriodSeconds, b.DeletionGracePeriodSeconds) ||
		!equality.Semantic.DeepEqual(a.Labels, b.Labels) ||
		!equality.Semantic.DeepEqual(a.Annotations, b.Annotations) ||
		!equality.Semantic.DeepEqual(&a.Spec, &b.Spec)
}

// rank orders the kinds of change within one snapshot.
func rank(t lifecycle.PodEventType) int {
	return slices.Index([]lifecycle.PodEventType{
		lifecycle.PodRemoved, lifecycle.PodAdded, lifecycle.PodUpdated, lifecycle.PodReconciled,
	}, t)
}
