// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package termination

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/cri"
)

// Request says which pod to stop, and by when.
type Request struct {
	// Pod is nil for an orphan: a pod that is known from the runtime only. Its hooks and
	// grace period then come from the annotations of its containers.
	Pod *v1.Pod
	// Status is a fresh observation of the pod. What does not run in it gets neither hook nor signal.
	Status *cri.PodStatus
	// Deadline is when the last container shall have been killed, by the Terminator's clock; hooks, stop signals and
	// kills all happen before it, except that a container always has two seconds between signal and kill. Zero means
	// the pod's own grace period from the first such call. The caller answers for a deadline that only moves closer; no
	// deadline gives more time than a container has by itself (KillContainer).
	Deadline time.Time
}

// KillPod stops every container of the pod, sidecars after what they serve, and then its sandboxes. It returns nil when nothing of the pod runs.
// On any error the caller observes anew and calls again; what was done is not repeated. When ctx is cancelled, as a pod
// worker does when the deadline moved closer, it returns early and the next call goes on with the new deadline.
func (t *Terminator) KillPod(ctx context.Context, req Request) error {
	if req.Pod == nil {
		pod, err := cri.RestorePod(req.Status)
		if err != nil {
			t.log.Warn("parts of an orphan cannot be restored", "pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID, "error", err)
		}
		req.Pod = pod
	}
	if err := t.stopContainers(ctx, req); err != nil {
		return err
	}
	// The sandbox holds the network, which hooks and dying containers still use: it goes last.
	var errs []error
	for i := range req.Status.Sandboxes {
		id := req.Status.Sandboxes[i].ID
		if err := t.runtime.StopSandbox(ctx, id); err != nil {
			errs = append(errs, fmt.Errorf("stopping sandbox %q: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// stopContainers stops all containers of the pod in parallel and joins their errors.
func (t *Terminator) stopContainers(ctx context.Context, req Request) error {
	alive := aliveContainers(req.Status)
	endings := make([]*ending, len(alive))
	for i, cs := range alive {
		endings[i] = newEnding(cs.Name)
	}
	before := predecessors(req.Pod, alive)
	var wg sync.WaitGroup
	for i, cs := range alive {
		v := newVictim(req.Pod, cs, "Stopping container "+cs.Name, req.Status.FirstIP())
		for _, j := range before[i] {
			v.after = append(v.after, endings[j])
		}
		wg.Go(func() { endings[i].set(t.kill(ctx, v, t.budget(v, req.Deadline))) })
	}
	wg.Wait()
	errs := make([]error, len(endings))
	for i, e := range endings {
		errs[i] = e.err
	}
	return errors.Join(errs...)
}

// budget is when the container has to be gone by what is asked of the pod.
func (t *Terminator) budget(v victim, deadline time.Time) budget {
	if deadline.IsZero() {
		return budget{own: t.clock.Now().Add(podGrace(v.pod))}
	}
	return budget{pods: deadline}
}

// aliveContainers are the containers that run, or may run for all the runtime can tell, those of hooks included.
func aliveContainers(status *cri.PodStatus) []*cri.ContainerStatus {
	var out []*cri.ContainerStatus
	for _, containers := range [][]cri.ContainerStatus{status.Containers, status.ExitHooks} {
		for i := range containers {
			if cs := &containers[i]; cs.MayRun() {
				out = append(out, cs)
			}
		}
	}
	return out
}
