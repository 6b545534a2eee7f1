// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// results are those of one container's probes.
type results struct {
	id    string
	kinds map[podrules.ProbeKind]podrules.ProbeResult
}

func (r results) ProbeResult(kind podrules.ProbeKind, id string) podrules.ProbeResult {
	if id != r.id {
		return podrules.ProbeUnknown
	}
	return r.kinds[kind]
}

func TestStartedAndReadyFollowTheProbes(t *testing.T) {
	const yes, no = podrules.ProbeSucceeded, podrules.ProbeFailed
	type kinds = map[podrules.ProbeKind]podrules.ProbeResult
	said := func(number int32, started, ready bool) *v1.ContainerStatus {
		st := told(number, ran(5), v1.ContainerState{})
		st.Started, st.Ready = &started, ready
		return st
	}
	running := rec(1, cri.ContainerRunning, 5)
	for _, tt := range []struct {
		desc               string
		startup, readiness bool
		results            kinds
		record             cri.ContainerStatus
		old                *v1.ContainerStatus
		starting           bool
		want               string
	}{
		{desc: "no probes", record: running, want: "started true, ready true"},
		{desc: "no result yet", startup: true, readiness: true, record: running, want: "started false, ready false"},
		{desc: "not started is not ready", startup: true, readiness: true, results: kinds{podrules.ReadinessProbe: yes}, record: running, want: "started false, ready false"},
		{desc: "started without a readiness probe is ready", startup: true, results: kinds{podrules.StartupProbe: yes}, record: running, want: "started true, ready true"},
		{desc: "started and not ready yet", startup: true, readiness: true, results: kinds{podrules.StartupProbe: yes}, record: running, want: "started true, ready false"},
		{desc: "ready", readiness: true, results: kinds{podrules.ReadinessProbe: yes}, record: running, want: "started true, ready true"},
		{desc: "not ready any more", readiness: true, results: kinds{podrules.ReadinessProbe: no}, record: running, old: said(1, true, true), want: "started true, ready false"},
		{desc: "start failed", startup: true, results: kinds{podrules.StartupProbe: no}, record: running, want: "started false, ready false"},
		{desc: "a restart of ours makes nothing unready", startup: true, readiness: true, record: running, old: said(1, true, true), want: "started true, ready true"},
		{desc: "nor anything ready", startup: true, readiness: true, record: running, old: said(1, true, false), want: "started true, ready false"},
		{desc: "the next container inherits nothing", startup: true, readiness: true, record: running, old: said(0, true, true), want: "started false, ready false"},
		{desc: "an ended one is neither", readiness: true, results: kinds{podrules.ReadinessProbe: yes}, record: exited(1, 0, 5), old: said(1, true, true), want: "started false, ready false"},
		{desc: "its postStart hook has not ended", starting: true, record: running, want: "waiting ContainerCreating, started false, ready false"},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			c := v1.Container{Name: "a"}
			if tt.startup {
				c.StartupProbe = &v1.Probe{}
			}
			if tt.readiness {
				c.ReadinessProbe = &v1.Probe{}
			}
			in := Input{
				Pod: &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{c}}}, Now: at(40),
				Runtime:  &cri.PodStatus{Containers: []cri.ContainerStatus{tt.record}},
				Probes:   results{"c1", tt.results},
				Starting: func(*cri.ContainerStatus) bool { return tt.starting },
			}
			if tt.old != nil {
				in.Pod.Status.ContainerStatuses = list(*tt.old)
			}
			st := Generate(in).ContainerStatuses[0]
			got := fmt.Sprintf("started %t, ready %t", *st.Started, st.Ready)
			if st.State.Waiting != nil {
				got = "waiting " + st.State.Waiting.Reason + ", " + got
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestSandboxIsToldBeforeImagesArePulled(t *testing.T) {
	pod := &v1.Pod{}
	pod.Generation = 3
	before := Generate(Input{Pod: pod, Runtime: &cri.PodStatus{}, Now: at(1)})
	after := WithSandbox(pod, before, at(2))
	c := condition(after.Conditions, v1.PodReadyToStartContainers)
	if c.Status != v1.ConditionTrue || c.Reason != "" || c.ObservedGeneration != 3 || !c.LastTransitionTime.Time.Equal(at(2)) {
		t.Errorf("got %+v", c)
	}
	if c := condition(before.Conditions, v1.PodReadyToStartContainers); c.Status != v1.ConditionFalse {
		t.Errorf("the earlier status was changed: %+v", c)
	}
}

func TestReadyIsStaleWhenAGateChanged(t *testing.T) {
	gate := func(s v1.ConditionStatus) v1.PodCondition { return v1.PodCondition{Type: "x/gate", Status: s} }
	pod := &v1.Pod{
		Spec: v1.PodSpec{
			Containers: []v1.Container{{Name: "a"}}, ReadinessGates: []v1.PodReadinessGate{{ConditionType: "x/gate"}},
		},
		Status: v1.PodStatus{Conditions: []v1.PodCondition{gate(v1.ConditionFalse)}},
	}
	running := &cri.PodStatus{Containers: []cri.ContainerStatus{rec(0, cri.ContainerRunning, 1)}}
	pod.Status = Generate(Input{Pod: pod, Runtime: running, Now: at(1)})
	if ReadyIsStale(pod) {
		t.Error("what was just generated is stale")
	}
	*condition(pod.Status.Conditions, "x/gate") = gate(v1.ConditionTrue)
	if !ReadyIsStale(pod) {
		t.Error("the gate opened and Ready is not stale")
	}
	pod.Status = Generate(Input{Pod: pod, Runtime: running, Now: at(2)})
	if c := condition(pod.Status.Conditions, v1.PodReady); c.Status != v1.ConditionTrue || ReadyIsStale(pod) {
		t.Errorf("got %+v", c)
	}
}
