// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/lifecycle/admission"
	"github.com/tombolo-dev/tombolo/lifecycle/pleg"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
	"github.com/tombolo-dev/tombolo/lifecycle/podworker"
	"github.com/tombolo-dev/tombolo/lifecycle/status"
)

// removedGrace is what the containers of a pod get whose API object vanished under them (a force delete): the least
// the runtime layer gives.
const removedGrace = time.Second

// handlePod takes one change of the desired state.
func (e *Engine) handlePod(ev PodEvent) {
	if ev.Pod != nil {
		e.log.Debug("pod event", "type", ev.Type.String(), "pod", ev.Pod.Namespace+"/"+ev.Pod.Name, "uid", ev.Pod.UID)
	}
	switch ev.Type {
	case SourceSynced:
		e.mu.Lock()
		e.synced = true
		e.mu.Unlock()
		e.retryResizes()
	case PodAdded:
		e.added(ev.Pod)
		e.retryResizes()
	case PodUpdated:
		e.updated(ev.Pod)
	case PodReconciled:
		e.reconciled(ev.Pod)
	case PodRemoved:
		e.removed(ev.Pod)
	}
}

func (e *Engine) added(pod *v1.Pod) {
	rejection := e.admit(pod)
	e.remember(pod)
	e.status.Observe(pod)
	if rejection != nil {
		e.reject(pod, rejection)
		return
	}
	allocated := e.resizes.Add(pod)
	if e.waitsForName(pod) {
		return
	}
	e.workers.Update(podworker.Update{Type: podworker.Create, Pod: allocated})
}

func (e *Engine) updated(pod *v1.Pod) {
	old := e.remember(pod)
	e.status.Observe(pod)
	if e.isRejected(pod.UID) {
		if pod.DeletionTimestamp != nil {
			e.status.Finish(pod)
		}
		return
	}
	if old != nil {
		for _, p := range admission.CheckUpdate(old, pod) {
			e.warn(pod, p.Reason, p.Message)
		}
	}
	e.workers.Update(podworker.Update{Type: podworker.Change, Pod: e.resizes.Desire(pod, e.fits())})
	e.retryResizes()
}

// reconciled takes a change of the status alone, which is nearly always our own. A phase that another writer made terminal
// ends the pod; the condition of a readiness gate may make it ready or unready.
func (e *Engine) reconciled(pod *v1.Pod) {
	if podrules.Static(pod) { // it shows what the API has of a static pod, which is no wish
		e.status.Observe(pod)
		return
	}
	e.remember(pod)
	e.status.Observe(pod)
	if podrules.Terminal(pod.Status.Phase) {
		e.retryResizes()
	}
	if e.isRejected(pod.UID) || e.workers.TerminationRequested(pod.UID) {
		return
	}
	if podrules.Terminal(pod.Status.Phase) || status.ReadyIsStale(pod) {
		e.update(podworker.Sync, pod)
	}
}

func (e *Engine) removed(pod *v1.Pod) {
	e.mu.Lock()
	delete(e.desired, pod.UID)
	delete(e.rejected, pod.UID)
	e.mu.Unlock()
	if e.workers.Known(pod.UID) {
		kill := podworker.Update{Type: podworker.Kill, Pod: e.resizes.Allocated(pod)}
		if grace := removedGrace; !podrules.Static(pod) { // a static pod is always ended this way
			kill.Grace = &grace
		}
		e.workers.Update(kill)
	}
	e.resizes.Forget(pod.UID)
	e.retryResizes()
}

// waitsForName says whether a static pod must wait for another one of its name, whose manifest it replaces, to end. Housekeeping
// starts it then.
func (e *Engine) waitsForName(pod *v1.Pod) bool {
	return podrules.Static(pod) && e.workers.NameInUse(pod)
}

// remember keeps the newest version of a desired pod and returns the one before.
func (e *Engine) remember(pod *v1.Pod) (old *v1.Pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	old = e.desired[pod.UID]
	e.desired[pod.UID] = pod
	e.seen[pod.UID] = struct{}{}
	return old
}

// admit checks a new pod. A pod that was accepted before, by this process or one before it, is never refused later: the
// API has its start time, or, if the process died before that was written, the runtime may have something of it.
func (e *Engine) admit(pod *v1.Pod) *admission.Rejection {
	if pod.DeletionTimestamp != nil || pod.Status.StartTime != nil || podrules.Terminal(pod.Status.Phase) || e.inRuntime(pod.UID) {
		return nil
	}
	return admission.Check(pod, e.admissionFacts())
}

// inRuntime says whether the runtime has something of the pod.
func (e *Engine) inRuntime(uid types.UID) bool {
	pods, _, _ := e.pleg.Observation()
	return slices.ContainsFunc(pods, func(p pleg.PodRecord) bool { return p.UID == uid })
}

func (e *Engine) reject(pod *v1.Pod, r *admission.Rejection) {
	e.mu.Lock()
	e.rejected[pod.UID] = struct{}{}
	e.mu.Unlock()
	e.metrics.rejections.WithLabelValues(r.Reason).Inc()
	e.warn(pod, r.Reason, r.Message)
	e.status.Reject(pod, r.Reason, r.Message)
}
