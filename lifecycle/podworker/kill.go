// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
)

// shortestKillWait is the least time a pod gets to end before its killer is told that it did not; the kubelet's.
const shortestKillWait = 10 * time.Second

// KillAndWait ends a pod and waits until no container of it runs: at least ten seconds, or half as long again as grace. Grace
// can only shorten what the pod has left. If it takes longer, a warning event is made and the error is DeadlineExceeded; the
// termination goes on.
func (w *Workers) KillAndWait(ctx context.Context, pod *v1.Pod, grace time.Duration) error {
	done := make(chan struct{})
	w.Update(Update{Type: Kill, Pod: pod, Grace: &grace, done: done})
	timer := w.clock.NewTimer(max(shortestKillWait, grace*3/2))
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C():
		w.warn(pod, "ExceededGracePeriod", "Container runtime did not kill the pod within specified grace period.")
		return fmt.Errorf("waiting for pod %s/%s to end: %w", pod.Namespace, pod.Name, context.DeadlineExceeded)
	}
}

// await lets done be closed once no container of the pod runs, which may be so already.
func (wk *worker) await(done chan struct{}) {
	switch {
	case done == nil:
	case !wk.state.terminatedAt.IsZero():
		close(done)
	default:
		wk.done = append(wk.done, done)
	}
}

// ended tells those who wait that no container of the pod runs any more.
func (wk *worker) ended() {
	for _, done := range wk.done {
		close(done)
	}
	wk.done = nil
}
