// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package termination

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// minStop is the least time between the stop signal and the kill, the kubelet's minimum grace period of a container.
// It holds even when the budget is used up.
const minStop = 2 * time.Second

// budget is when a container has to be gone; zero times are none. own counts from the first attempt, so that only the
// earliest one holds; pods is that of the pod's termination, for which the caller answers.
type budget struct{ own, pods time.Time }

// hookTime is how long a hook may run from now.
func hookTime(deadline, now time.Time) time.Duration {
	return max(deadline.Sub(now), podrules.MinHook)
}

// stopGrace is how long a container has from now between the stop signal and the kill.
func stopGrace(deadline, now time.Time) time.Duration {
	return max(deadline.Sub(now), minStop)
}

// grace is the grace period of a single container that is killed.
func (k ContainerKill) grace() time.Duration {
	if k.NoGrace {
		return 0
	}
	if own := k.probeGrace(); own != nil && k.Pod.DeletionGracePeriodSeconds == nil {
		return time.Duration(*own) * time.Second
	}
	return podGrace(k.Pod)
}

// probeGrace is the grace period in seconds of the probe that failed, nil if none failed or it has none.
func (k ContainerKill) probeGrace() *int64 {
	c, _ := podrules.Find(k.Pod, k.Container.Name)
	if c == nil {
		return nil
	}
	var probe *v1.Probe
	switch k.Why {
	case KillLivenessFailed:
		probe = c.LivenessProbe
	case KillStartupFailed:
		probe = c.StartupProbe
	}
	if probe == nil {
		return nil
	}
	return probe.TerminationGracePeriodSeconds
}

// podGrace is the grace period of a container that is killed while its pod lives on, or whose killer named no deadline.
func podGrace(pod *v1.Pod) time.Duration { return podrules.GracePeriod(pod, minStop) }

// earlier returns the earlier of two deadlines, each of which may be zero for none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
