// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package resize

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/cri"
)

// Runtime changes containers that run. Both methods have a deadline of their own, are idempotent and return errors of the
// classes of github.com/containerd/errdefs.
type Runtime interface {
	// UpdateContainerResources sets what is not zero.
	UpdateContainerResources(ctx context.Context, id string, resources *runtimeapi.LinuxContainerResources) error
	// ContainerStats measures one container.
	ContainerStats(ctx context.Context, id string) (*runtimeapi.ContainerStats, error)
}

// change is one resource of one container that the runtime has to be told of.
type change struct {
	container *v1.Container
	record    *cri.ContainerStatus
	resource  v1.ResourceName
	want      amounts
	grows     bool
}

// Restarts says whether a change of the running container's resources asks for its restart, by its resizePolicy. The
// pod is the allocated one.
func (m *Manager) Restarts(pod *v1.Pod, c *v1.Container, record *cri.ContainerStatus) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.pods[pod.UID]
	if s == nil || s.recovered || record.State != cri.ContainerRunning {
		return false
	}
	return restarts(pod, c, s.actual(pod, c, record))
}

func restarts(pod *v1.Pod, c *v1.Container, have amounts) bool {
	want := amountsOf(effective(pod, c))
	for _, p := range c.ResizePolicy {
		if p.RestartPolicy == v1.RestartContainer && have.differ(want, p.ResourceName) {
			return true
		}
	}
	return false
}

// Apply tells the runtime of every change that needs no restart: memory before CPU, and of each resource what shrinks
// before what grows. A failure ends it; it is told by condition and event, and the next call goes on where it ended.
func (m *Manager) Apply(ctx context.Context, pod *v1.Pod, status *cri.PodStatus) (acted bool, err error) {
	changes := m.changes(pod, status)
	if err = m.wholeMemoryInUse(ctx, pod, status); err == nil {
		err = m.memoryInUse(ctx, changes)
	}
	if err == nil {
		for _, c := range changes {
			if err = m.update(ctx, pod, c); err != nil {
				break
			}
			acted = true
		}
	}
	if err != nil && ctx.Err() == nil && !errdefs.IsUnavailable(err) {
		m.Failed(pod, err)
	}
	return acted, err
}

func (m *Manager) changes(pod *v1.Pod, status *cri.PodStatus) []change {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.pods[pod.UID]
	if s == nil || s.recovered {
		return nil
	}
	var out []change
	for _, name := range []v1.ResourceName{v1.ResourceMemory, v1.ResourceCPU} {
		var grow []change
		running(pod, status, func(c *v1.Container, record *cri.ContainerStatus) {
			have, want := s.actual(pod, c, record), amountsOf(effective(pod, c))
			if !have.differ(want, name) || restarts(pod, c, have) {
				return
			}
			next := change{container: c, record: record, resource: name, want: want, grows: have.grows(want, name)}
			if next.grows {
				grow = append(grow, next)
			} else {
				out = append(out, next)
			}
		})
		out = append(out, grow...)
	}
	return out
}

// memoryInUse refuses the changes if one of them takes away memory that a container uses: the kernel would kill it.
func (m *Manager) memoryInUse(ctx context.Context, changes []change) error {
	var errs []error
	for _, c := range changes {
		limit := c.want.memoryLimit
		if c.resource != v1.ResourceMemory || c.grows || limit == 0 {
			continue
		}
		stats, err := m.runtime.ContainerStats(ctx, c.record.ID)
		if err != nil {
			return fmt.Errorf("measuring container %q: %w", c.container.Name, err)
		}
		switch usage := stats.GetMemory().GetUsageBytes(); {
		case usage == nil:
			errs = append(errs, fmt.Errorf("missing container %q memory usage", c.container.Name))
		case usage.Value >= uint64(limit): //nolint:gosec // a limit is not negative: the API refuses it.
			errs = append(errs, belowUsage(c.container.Name, limit, usage.Value))
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("cannot decrease memory limits: %w", errors.Join(errs...))
	}
	return nil
}

// update tells the runtime one resource of a container, with the others as it was told them last.
func (m *Manager) update(ctx context.Context, pod *v1.Pod, c change) error {
	m.mu.Lock()
	s := m.pods[pod.UID]
	if s == nil {
		m.mu.Unlock()
		return nil
	}
	next := s.actual(pod, c.container, c.record).with(c.want, c.resource)
	m.mu.Unlock()
	err := m.runtime.UpdateContainerResources(ctx, c.record.ID, cri.UpdatedResources(next.requirements()))
	if errdefs.IsNotFound(err) {
		return nil // it ended meanwhile; the next one is made with what is allocated
	}
	if err != nil {
		return fmt.Errorf("updating resources of container %q: %w", c.container.Name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s.actuated[c.record.ID] = next
	return nil
}

// Failed tells by condition and event that the runtime could not follow.
func (m *Manager) Failed(pod *v1.Pod, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.pods[pod.UID]
	if s == nil {
		return
	}
	old, generation := s.progress, pod.Generation
	if old != nil {
		generation = old.ObservedGeneration
	}
	s.progress = newCondition(v1.PodResizeInProgress, old, v1.PodReasonError, err.Error(), generation, m.clock.Now())
	if !sameReason(old, s.progress) {
		m.recorder.Event(pod, v1.EventTypeWarning, eventError, message("Pod resize error", pod, generation, err.Error()))
	}
}

// Actuated returns what the runtime was last told of a container; ok is false if nothing is known.
func (m *Manager) Actuated(pod *v1.Pod, id string) (r v1.ResourceRequirements, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.pods[pod.UID]
	if s == nil {
		return v1.ResourceRequirements{}, false
	}
	a, ok := s.actuated[id]
	return a.requirements(), ok
}
