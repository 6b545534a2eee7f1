// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/lifecycle/admission"
	"github.com/tombolo-dev/tombolo/lifecycle/podworker"
	"github.com/tombolo-dev/tombolo/lifecycle/resize"
)

// How long after its start the node first tries the changes of resources that wait, and how often after that, as the
// kubelet does. Whatever may have made room tries them at once.
const (
	resizeFirstRetry = 30 * time.Second
	resizeRetry      = 3 * time.Minute
)

// update tells a pod's worker of the pod with what it was allocated, which is all that workers ever see of it.
func (e *Engine) update(t podworker.UpdateType, pod *v1.Pod) {
	e.workers.Update(podworker.Update{Type: t, Pod: e.resizes.Allocated(pod)})
}

// fits compares a pod that asks for other resources with the node as it is now. It is nil while not all pods are known: the
// missing ones would be taken for room.
func (e *Engine) fits() resize.Fits {
	if !e.sourceSynced() {
		return nil
	}
	facts := e.nodeFacts()
	return func(pod *v1.Pod, allocated func(*v1.Pod) *v1.Pod) (reason, message string) {
		now := facts
		now.ActivePods = make([]*v1.Pod, len(facts.ActivePods))
		for i, other := range facts.ActivePods {
			now.ActivePods[i] = allocated(other)
		}
		return admission.CheckResize(pod, allocated(pod), now)
	}
}

// retryResizes tries the changes of resources that wait for room.
func (e *Engine) retryResizes() {
	if !e.resizes.Waiting() {
		return
	}
	fits := e.fits()
	if fits == nil {
		return
	}
	for _, uid := range e.resizes.Retry(fits) {
		if pod, ok := e.pod(uid); ok {
			e.update(podworker.Change, pod)
		}
	}
}
