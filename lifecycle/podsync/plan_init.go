// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// initWalk looks at the init containers from the last to the first, for the first record found tells how far the pod has
// come: what is before it is done, if it is not a sidecar.
type initWalk struct {
	*plan
	// past says that what is looked at next has been initialised once.
	past bool
	// done says that the regular containers may run.
	done bool
}

// initialise decides about init containers and sidecars. It returns true when the regular containers may run.
func (p *plan) initialise() bool {
	inits := p.Pod.Spec.InitContainers
	if len(inits) == 0 {
		return true
	}
	past := podrules.PastInit(p.Pod, p.Status)
	w := initWalk{plan: p, past: past, done: past}
	for i, c := range slices.Backward(inits) {
		w.look(i, &c)
		if p.actions.KillPod {
			return false
		}
	}
	if !w.past {
		p.actions.InitToStart = []int{0}
	}
	slices.Sort(p.actions.InitToStart)
	return w.done
}

// look decides about the i-th init container.
func (w *initWalk) look(i int, c *v1.Container) {
	record, sidecar := w.inSandbox(c.Name), podrules.IsSidecar(c)
	switch {
	case w.past && !sidecar:
		return
	case record == nil && w.past:
		w.start(i) // the record of a sidecar that ran is gone
		return
	case record == nil:
		return
	case w.dying[record.ID]:
		// A stray: its end decides what follows.
	case record.State == cri.ContainerCreated:
		w.start(i)
	case sidecar:
		w.sidecar(i, c, record)
	default:
		w.initContainer(i, c, record)
	}
	w.past = true
}

// initContainer decides what follows from the record of a regular init container.
func (w *initWalk) initContainer(i int, c *v1.Container, record *cri.ContainerStatus) {
	switch {
	case record.State == cri.ContainerRunning:
		if w.resizeRestarts(c, record) {
			w.kill(record, KillResize, fmt.Sprintf("Init container %s resize requires restart", c.Name))
			w.start(i)
		}
	case record.State == cri.ContainerExited && !podrules.InitFailed(record):
		w.next(i)
	case record.State == cri.ContainerExited && podrules.InitRestartable(w.Pod, c, record):
		w.start(i)
	case record.State == cri.ContainerUnknown && podrules.MayRetry(w.Pod, c):
		w.killUnknown(record)
		w.start(i)
	default:
		w.actions.KillPod = true
	}
}

// sidecar decides what follows from the record of a sidecar. It always runs, whatever the pod's policy.
func (w *initWalk) sidecar(i int, c *v1.Container, record *cri.ContainerStatus) {
	switch record.State {
	case cri.ContainerRunning:
		w.runningSidecar(i, c, record)
	case cri.ContainerExited:
		w.start(i)
	default:
		w.killUnknown(record)
		w.start(i)
	}
}

// runningSidecar lets the next init container start when the sidecar has started, and restarts the sidecar if it must not
// go on. Whether it is alive does not hold up the next one.
func (w *initWalk) runningSidecar(i int, c *v1.Container, record *cri.ContainerStatus) {
	if w.hook(c, record) {
		return
	}
	switch w.probe(podrules.StartupProbe, c.StartupProbe, record) {
	case podrules.ProbeUnknown:
		return
	case podrules.ProbeSucceeded:
		if !w.past {
			w.next(i)
		}
	}
	if reason, what := w.fault(c, record); reason != "" {
		w.kill(record, reason, fmt.Sprintf("Init container %s %s", c.Name, what))
		w.start(i)
	}
}

func (w *initWalk) start(i int) { w.actions.InitToStart = append(w.actions.InitToStart, i) }

// next goes on after the i-th init container is done for the first time.
func (w *initWalk) next(i int) {
	if i+1 == len(w.Pod.Spec.InitContainers) {
		w.done = true
		return
	}
	w.start(i + 1)
}

func (w *initWalk) killUnknown(record *cri.ContainerStatus) {
	w.kill(record, KillUnknown, fmt.Sprintf("Init container is in %q state, try killing it before restart", record.State))
}
