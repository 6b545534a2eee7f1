// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package resize

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// conditionOf returns a copy of the condition that the API has, nil if it has none.
func conditionOf(pod *v1.Pod, conditionType v1.PodConditionType) *v1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == conditionType {
			return pod.Status.Conditions[i].DeepCopy()
		}
	}
	return nil
}

// newCondition follows an old condition of its type, which may be nil. Its transition time is that of its reason.
func newCondition(
	conditionType v1.PodConditionType, old *v1.PodCondition, reason, message string, generation int64, now time.Time,
) *v1.PodCondition {
	at := metav1.NewTime(now).Rfc3339Copy()
	out := &v1.PodCondition{
		Type: conditionType, Status: v1.ConditionTrue, LastProbeTime: at, LastTransitionTime: at,
		Reason: reason, Message: message, ObservedGeneration: generation,
	}
	if old != nil && old.Reason == reason {
		out.LastTransitionTime = old.LastTransitionTime
		if old.Message == message && old.ObservedGeneration == generation {
			out.LastProbeTime = old.LastProbeTime
		}
	}
	return out
}
