// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"encoding/json"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// merge makes the status to send: what the API has, with our part replaced by what we have. Conditions and fields of
// others stay. As long as containers of the pod could run, a phase that became terminal is withheld, together with its
// reason and message, and withheld is true.
func merge(api *v1.PodStatus, ours *v1.PodStatus, couldRun bool, now time.Time) (merged *v1.PodStatus, withheld bool) {
	merged = api.DeepCopy()
	ours = ours.DeepCopy()
	ends := !podrules.Terminal(api.Phase) && podrules.Terminal(ours.Phase)
	withheld = ends && couldRun

	merged.Conditions = nil
	for _, c := range api.Conditions {
		if !isOwned(c.Type) {
			merged.Conditions = append(merged.Conditions, c)
		}
	}
	for _, c := range ours.Conditions {
		switch {
		case isOwned(c.Type):
			merged.Conditions = append(merged.Conditions, c)
		case isShared(c.Type) && ends && !withheld:
			c.LastTransitionTime = metav1.Time{} // it takes effect now, not when it was decided
			merged.Conditions = replaceCondition(merged.Conditions, c)
		}
	}
	setOwned(merged, *ours)
	if withheld || podrules.Terminal(api.Phase) && api.Phase != ours.Phase {
		merged.Phase, merged.Reason, merged.Message = api.Phase, api.Reason, api.Message
	}
	merged.ObservedGeneration = max(merged.ObservedGeneration, api.ObservedGeneration)
	if podrules.Terminal(merged.Phase) {
		notReady(merged.Conditions, merged.Phase)
	}
	keepTransitionTimes(merged.Conditions, api.Conditions, now)
	return merged, withheld
}

// notReady makes sure that no terminal pod is said to be ready. What it changes has no transition time yet.
func notReady(conditions []v1.PodCondition, phase v1.PodPhase) {
	for i := range conditions {
		c := &conditions[i]
		if (c.Type == v1.PodReady || c.Type == v1.ContainersReady) && c.Status == v1.ConditionTrue {
			c.Status, c.Reason, c.Message = v1.ConditionFalse, terminalReason(phase), ""
			c.LastTransitionTime = metav1.Time{}
		}
	}
}

func replaceCondition(list []v1.PodCondition, c v1.PodCondition) []v1.PodCondition {
	if known := condition(list, c.Type); known != nil {
		*known = c
		return list
	}
	return append(list, c)
}

// patch returns the strategic merge patch that turns one status into the other, nil if there is nothing to change.
func patch(from, to *v1.PodStatus) ([]byte, error) {
	before, err := json.Marshal(from)
	if err != nil {
		return nil, fmt.Errorf("encoding the status in the API: %w", err)
	}
	after, err := json.Marshal(to)
	if err != nil {
		return nil, fmt.Errorf("encoding the new status: %w", err)
	}
	diff, err := strategicpatch.CreateTwoWayMergePatch(before, after, v1.PodStatus{})
	if err != nil {
		return nil, fmt.Errorf("comparing the new status with that in the API: %w", err)
	}
	if string(diff) == "{}" {
		return nil, nil
	}
	return diff, nil
}
