// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/lifecycle/admission"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// Pods returns the desired pods as the API last showed them. The pods are shared.
func (e *Engine) Pods() []*v1.Pod {
	e.mu.RLock()
	defer e.mu.RUnlock()
	out := make([]*v1.Pod, 0, len(e.desired))
	for _, pod := range e.desired {
		out = append(out, pod)
	}
	return out
}

// Pod finds a desired pod by name. While an old pod of the name is going away beside a new one, it is the new one.
func (e *Engine) Pod(namespace, name string) (*v1.Pod, bool) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	var found *v1.Pod
	for _, pod := range e.desired {
		if pod.Namespace == namespace && pod.Name == name && (found == nil || newer(pod, found)) {
			found = pod
		}
	}
	return found, found != nil
}

func newer(a, b *v1.Pod) bool {
	if (a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil) {
		return a.DeletionTimestamp == nil
	}
	return b.CreationTimestamp.Before(&a.CreationTimestamp)
}

// RuntimeStatus returns the newest observation of a pod; an empty one if there is none.
func (e *Engine) RuntimeStatus(uid types.UID) (*cri.PodStatus, error) { return e.pleg.Get(uid) }

// Status returns the status last computed for a pod, which may be newer than the API's.
func (e *Engine) Status(uid types.UID) (v1.PodStatus, bool) { return e.status.Get(uid) }

// MayRun says whether a container of the pod of that UID may run, which is so while nothing proves otherwise. Call it only while
// Run runs the pod source.
func (e *Engine) MayRun(uid types.UID) bool {
	return e.workers.CouldHaveRunningContainers(uid) || e.pleg.MayRun(uid)
}

// admissionFacts is what admission needs to know of the node. Pods about which nothing is decided yet do not count.
func (e *Engine) admissionFacts() admission.Facts {
	facts := e.nodeFacts()
	for i, pod := range facts.ActivePods {
		facts.ActivePods[i] = e.resizes.Allocated(pod)
	}
	return facts
}

// nodeFacts are the facts for admission with what the pods ask for in place of what they were allocated.
func (e *Engine) nodeFacts() admission.Facts {
	e.mu.RLock()
	defer e.mu.RUnlock()
	facts := admission.Facts{MaxPods: e.opts.MaxPods, Host: e.opts.Machine.Facts(), UnsafeSysctls: e.opts.UnsafeSysctls}
	if e.opts.Node != nil {
		facts.Node = e.opts.Node()
	}
	for uid, pod := range e.desired {
		if e.workers.Known(uid) && !podrules.Terminal(pod.Status.Phase) {
			facts.ActivePods = append(facts.ActivePods, pod)
		}
	}
	return facts
}

// nodeLabels returns the labels of the node as last known. They are shared.
func (e *Engine) nodeLabels() map[string]string {
	if e.opts.Node == nil {
		return nil
	}
	node := e.opts.Node()
	if node == nil {
		return nil
	}
	return node.Labels
}

// allocatable returns what the node can give to pods, nil as long as that is not known. It is shared.
func (e *Engine) allocatable() v1.ResourceList {
	if e.opts.Node == nil {
		return nil
	}
	node := e.opts.Node()
	if node == nil {
		return nil
	}
	return node.Status.Allocatable
}
