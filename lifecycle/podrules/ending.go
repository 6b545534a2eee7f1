// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podrules

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// Terminal says whether a phase is final.
func Terminal(p v1.PodPhase) bool { return p == v1.PodSucceeded || p == v1.PodFailed }

// GracePeriod returns the grace period of the pod's deletion, else that of its spec, else fallback, as it was asked for:
// it may be zero.
func GracePeriod(pod *v1.Pod, fallback time.Duration) time.Duration {
	switch {
	case pod.DeletionGracePeriodSeconds != nil:
		return time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		return time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second
	default:
		return fallback
	}
}
