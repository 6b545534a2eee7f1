// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// setStarted says whether a container has started and is ready. One that runs has started once its startup probe has
// succeeded, and is ready once its readiness probe has too; a probe that it does not have holds nothing back. A regular
// init container is ready when it has succeeded.
func (g *generation) setStarted(k kind, c *v1.Container, st, old *v1.ContainerStatus) {
	running := st.State.Running != nil
	switch {
	case k == ephemeral:
		st.Started, st.Ready = nil, false
	case k == initial && !podrules.IsSidecar(c):
		st.Started = &running
		st.Ready = st.State.Terminated != nil && st.State.Terminated.ExitCode == 0
	default:
		started, ready := saidOf(st, old)
		started = running && g.passed(podrules.StartupProbe, c.StartupProbe, st, started)
		st.Started = &started
		st.Ready = started && g.passed(podrules.ReadinessProbe, c.ReadinessProbe, st, ready)
	}
}

// saidOf returns what was said of the same instance, if it was said to run.
func saidOf(st, old *v1.ContainerStatus) (started, ready bool) {
	if old == nil || old.State.Running == nil || old.ContainerID == "" || old.ContainerID != st.ContainerID {
		return false, false
	}
	return old.Started != nil && *old.Started, old.Ready
}

// passed says whether a probe lets the container pass. before is what was said of the same instance before, which holds
// as long as the probe has no result.
func (g *generation) passed(kind podrules.ProbeKind, probe *v1.Probe, st *v1.ContainerStatus, before bool) bool {
	switch {
	case probe == nil:
		return true
	case g.in.Probes == nil || g.in.Runtime == nil:
		return before
	}
	r := g.in.Runtime.Newest(st.Name)
	if r == nil {
		return before
	}
	switch g.in.Probes.ProbeResult(kind, r.ID) {
	case podrules.ProbeSucceeded:
		return true
	case podrules.ProbeFailed:
		return false
	default:
		return before
	}
}
