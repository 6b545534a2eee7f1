// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// Reject sets the status of a pod that was not admitted: Failed, with the reason, and the message behind the kubelet's
// words for it. Nothing of it ever ran here, so whatever its status says of containers is kept. When the pod is deleted,
// Finish lets its object go.
func (m *Manager) Reject(pod *v1.Pod, reason, message string) {
	m.update(pod, false, func(*v1.PodStatus) v1.PodStatus { return rejected(pod, reason, message, m.clock.Now()) }, m.enqueue)
}

func rejected(pod *v1.Pod, reason, message string, now time.Time) v1.PodStatus {
	status := owned(pod.Status.DeepCopy())
	status.ObservedGeneration = max(pod.Generation, status.ObservedGeneration)
	status.QOSClass = podrules.QOSClass(pod)
	status.Phase = v1.PodFailed
	status.Reason = reason
	status.Message = messageRejectedPrefix + message
	if status.StartTime == nil {
		status.StartTime = &metav1.Time{Time: now}
	}
	status.Conditions = append(status.Conditions, pod.Status.Conditions...)
	normalize(pod, &status)
	return status
}
