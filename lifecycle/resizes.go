// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/lifecycle/admission"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
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
		before := allocated(pod)
		if swapChanges(e.swap(), pod, before) {
			return v1.PodReasonInfeasible, "In-place resize of containers with swap is not supported."
		}
		if e.opts.NoPodCgroups && podLevelChanges(pod, before) {
			return v1.PodReasonInfeasible, "In-place resize of pod-level resources is not supported on a node without control groups for pods (--cgroups-per-qos=false)."
		}
		return admission.CheckResize(pod, before, now)
	}
}

// swap is what containers may use of the machine's swap, nothing before it is known.
func (e *Engine) swap() cri.Swap {
	facts := e.opts.Machine.Facts()
	if facts == nil || facts.CgroupVersion != 2 {
		return cri.Swap{}
	}
	return cri.Swap{Bytes: facts.SwapBytes, Control: facts.SwapControl, Limited: e.opts.LimitedSwap}
}

// swapChanges says whether a change of memory would change what a container that goes on running may use of swap, which the
// kubelet does not do either.
func swapChanges(swap cri.Swap, pod, allocated *v1.Pod) bool {
	before := map[string]*v1.Container{}
	for _, c := range podrules.Containers(allocated) {
		before[c.Name] = c
	}
	for kind, c := range podrules.Containers(pod) {
		old := before[c.Name]
		if kind == podrules.EphemeralContainer || old == nil || c.Resources.Requests.Memory().Equal(*old.Resources.Requests.Memory()) ||
			slices.Contains(old.ResizePolicy, v1.ContainerResizePolicy{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}) {
			continue
		}
		if swap.UsesSwap(pod, c) || swap.UsesSwap(allocated, old) {
			return true
		}
	}
	return false
}

// podLevelChanges says whether what the pod as a whole may have is to change, which the group of the pod limits.
func podLevelChanges(pod, allocated *v1.Pod) bool {
	return !equality.Semantic.DeepEqual(pod.Spec.Resources, allocated.Spec.Resources)
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
