// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/lifecycle/evict"
	"github.com/tombolo-dev/tombolo/lifecycle/podworker"
	"github.com/tombolo-dev/tombolo/lifecycle/status"
)

// evictions are the pods that this process evicted, and why. Its zero value is ready.
type evictions struct {
	mu   sync.Mutex
	pods map[types.UID]*status.Failure
}

// note keeps why a pod is evicted, unless it is already.
func (v *evictions) note(uid types.UID, why *status.Failure) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.pods[uid] != nil {
		return false
	}
	if v.pods == nil {
		v.pods = map[types.UID]*status.Failure{}
	}
	v.pods[uid] = why
	return true
}

// failure returns why a pod is evicted, nil if it is not.
func (v *evictions) failure(uid types.UID) *status.Failure {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.pods[uid]
}

func (v *evictions) forget(uid types.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.pods, uid)
}

// livePods returns the pods that may run and are not on their way out, with what they were allocated.
func (e *Engine) livePods() []*v1.Pod {
	pods := e.nodeFacts().ActivePods
	out := make([]*v1.Pod, 0, len(pods))
	for _, pod := range pods {
		if !e.workers.TerminationRequested(pod.UID) {
			out = append(out, e.resizes.Allocated(pod))
		}
	}
	return out
}

// evictPod fails a pod that takes too much of the host's disk and ends it with the kubelet's grace period.
func (e *Engine) evictPod(pod *v1.Pod, why evict.Verdict) bool {
	current, ok := e.pod(pod.UID)
	if !ok || e.workers.TerminationRequested(pod.UID) || !e.evicted.note(pod.UID, &status.Failure{Reason: evict.Reason, Message: why.Message}) {
		return false
	}
	e.log.Info("evicting a pod", "pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID, "message", why.Message)
	e.warn(pod, evict.Reason, why.Message)
	grace := evict.Grace
	e.workers.Update(podworker.Update{Type: podworker.Kill, Pod: e.resizes.Allocated(current), Grace: &grace})
	return true
}

// wasEvicted says whether a pod was evicted, by this process or one before it.
func (e *Engine) wasEvicted(uid types.UID) bool {
	if e.evicted.failure(uid) != nil {
		return true
	}
	pod, ok := e.pod(uid)
	return ok && pod.Status.Phase == v1.PodFailed && pod.Status.Reason == evict.Reason
}

// spent says whether nothing of an evicted pod runs any more and it is known how its containers ended.
func (e *Engine) spent(uid types.UID) bool {
	return e.wasEvicted(uid) && !e.workers.CouldHaveRunningContainers(uid)
}

// freeEvicted removes the containers of an evicted pod that has ended: their layers and logs are what it was evicted for. What
// cannot be removed now is garbage like any other.
func (e *Engine) freeEvicted(ctx context.Context, pod *v1.Pod) {
	if !e.wasEvicted(pod.UID) {
		return
	}
	if err := e.gc.Collect(ctx, pod.UID); err != nil && ctx.Err() == nil {
		e.log.Warn("removing the containers of an evicted pod", "pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID, "error", err)
	}
}
