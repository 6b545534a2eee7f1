// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/lifecycle/podworker"
	"github.com/tombolo-dev/tombolo/lifecycle/probe"
)

// shown is the observation that each pod's status was last made from, so that a probe's result can be shown while the pod's
// worker is busy. Its lock is held while a status is made, because each is made from the one before.
type shown struct {
	mu   sync.Mutex
	last map[types.UID]*cri.PodStatus
}

func (s *shown) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last, uid)
}

// handleProbe shows a result at once and wakes the worker, which does what follows from it.
func (e *Engine) handleProbe(u probe.Update) {
	pod, ok := e.pod(u.UID)
	if !ok || e.isRejected(u.UID) {
		return
	}
	pod = e.resizes.Allocated(pod)
	e.showProbes(pod)
	e.workers.Update(podworker.Update{Type: podworker.Sync, Pod: pod})
}

// showProbes makes the status that was last made anew. A pod of which none was made, or the last, has nothing to show.
func (e *Engine) showProbes(pod *v1.Pod) {
	e.shown.mu.Lock()
	defer e.shown.mu.Unlock()
	if rs := e.shown.last[pod.UID]; rs != nil {
		e.status.Set(pod, e.generate(pod, rs, false))
	}
}

// hostIP is the node's primary address.
func (e *Engine) hostIP() string {
	if ips := e.opts.Machine.HostIPs(); len(ips) > 0 {
		return ips[0]
	}
	return ""
}
