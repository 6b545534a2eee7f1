// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package resize

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/cri"
)

// wholeOf is what a pod asks for by itself.
func wholeOf(pod *v1.Pod) amounts {
	if pod.Spec.Resources == nil {
		return amounts{}
	}
	return amountsOf(*pod.Spec.Resources)
}

// wholeInEffect is what the pod as a whole has: as far as this process knows, else as the API says. What neither says is what is
// allocated, for every control group is made with that.
func (s *state) wholeInEffect(pod *v1.Pod) amounts {
	if s.whole == nil {
		a := wholeOf(pod)
		if told := pod.Status.Resources; told != nil && pod.Spec.Resources != nil {
			a = amountsOf(v1.ResourceRequirements{
				Requests: only(told.Requests, pod.Spec.Resources.Requests), Limits: only(told.Limits, pod.Spec.Resources.Limits),
			})
		}
		s.whole = &a
	}
	return *s.whole
}

// Settled notes that the pod's control group has what the pod has been allocated: pod is the one with that. It returns false if
// that was known.
func (m *Manager) Settled(pod *v1.Pod) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.pods[pod.UID]
	if s == nil || s.recovered {
		return false
	}
	want := wholeOf(pod)
	changed := s.wholeInEffect(pod) != want
	s.whole = &want
	return changed
}

// WholePod returns what the pod as a whole has of what it asks for by itself; ok is false if nothing is known.
func (m *Manager) WholePod(pod *v1.Pod) (r v1.ResourceRequirements, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.pods[pod.UID]
	if s == nil {
		return v1.ResourceRequirements{}, false
	}
	return s.wholeInEffect(pod).requirements(), true
}

// wholeMemoryInUse refuses to take memory from a pod that its containers use together.
func (m *Manager) wholeMemoryInUse(ctx context.Context, pod *v1.Pod, status *cri.PodStatus) error {
	limit := wholeOf(pod).memoryLimit
	m.mu.Lock()
	s := m.pods[pod.UID]
	shrinks := false
	if s != nil && !s.recovered && limit > 0 {
		has := s.wholeInEffect(pod).memoryLimit
		shrinks = has == 0 || has > limit
	}
	m.mu.Unlock()
	if !shrinks {
		return nil
	}
	var used uint64
	for i := range status.Containers {
		record := &status.Containers[i]
		if record.State != cri.ContainerRunning {
			continue
		}
		stats, err := m.runtime.ContainerStats(ctx, record.ID)
		switch {
		case errdefs.IsNotFound(err): // it ended meanwhile
		case err != nil:
			return fmt.Errorf("measuring container %q: %w", record.Name, err)
		default:
			used += stats.GetMemory().GetUsageBytes().GetValue()
		}
	}
	if used >= uint64(limit) { //nolint:gosec // it is positive
		return fmt.Errorf("attempting to set pod memory limit (%d) below current usage (%d)", limit, used)
	}
	return nil
}
