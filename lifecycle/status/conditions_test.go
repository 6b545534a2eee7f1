// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func isReady(name string) v1.ContainerStatus {
	st := running(name)
	st.Ready = true
	return st
}

func TestConditionsOfContainers(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{{Name: "i"}, {Name: "s", RestartPolicy: new(v1.ContainerRestartPolicyAlways)}},
		Containers:     []v1.Container{{Name: "a"}, {Name: "b"}},
	}}
	done := ended("i", 0)
	done.Ready = true
	type cond = v1.PodCondition
	const yes, no = v1.ConditionTrue, v1.ConditionFalse
	for _, tt := range []struct {
		desc               string
		status             v1.PodStatus
		old                []v1.PodCondition
		initialized, ready cond
	}{
		{
			desc:        "nothing is known",
			initialized: cond{Status: no, Reason: "ContainersNotInitialized", Message: "containers with unknown status: [i s]"},
			ready:       cond{Status: no, Reason: "UnknownContainerStatuses"},
		},
		{
			desc:        "the init containers are under way",
			status:      v1.PodStatus{InitContainerStatuses: list(running("i"), waiting("s")), ContainerStatuses: list(waiting("a"), waiting("b"))},
			initialized: cond{Status: no, Reason: "ContainersNotInitialized", Message: "containers with incomplete status: [i s]"},
			ready:       cond{Status: no, Reason: "ContainersNotReady", Message: "containers with unready status: [s a b]"},
		},
		{
			desc:        "some are not known, some not complete",
			status:      v1.PodStatus{InitContainerStatuses: list(running("i")), ContainerStatuses: list(waiting("a"))},
			initialized: cond{Status: no, Reason: "ContainersNotInitialized", Message: "containers with unknown status: [s], containers with incomplete status: [i]"},
			ready:       cond{Status: no, Reason: "ContainersNotReady", Message: "containers with unknown status: [s b], containers with unready status: [a]"},
		},
		{
			desc:        "initialised, main has not started",
			status:      v1.PodStatus{InitContainerStatuses: list(done, isReady("s")), ContainerStatuses: list(waiting("a"), isReady("b"))},
			initialized: cond{Status: yes},
			ready:       cond{Status: no, Reason: "ContainersNotReady", Message: "containers with unready status: [a]"},
		},
		{
			desc:        "everything is ready",
			status:      v1.PodStatus{InitContainerStatuses: list(done, isReady("s")), ContainerStatuses: list(isReady("a"), isReady("b"))},
			initialized: cond{Status: yes},
			ready:       cond{Status: yes},
		},
		{
			desc:        "what runs is past its init containers although a sidecar starts again",
			status:      v1.PodStatus{InitContainerStatuses: list(done, again("s", 1)), ContainerStatuses: list(isReady("a"), waiting("b"))},
			initialized: cond{Status: yes},
			ready:       cond{Status: no, Reason: "ContainersNotReady", Message: "containers with unready status: [s b]"},
		},
		{
			desc:        "what was initialised stays so in a new sandbox",
			status:      v1.PodStatus{InitContainerStatuses: list(waiting("i"), waiting("s")), ContainerStatuses: list(waiting("a"), waiting("b"))},
			old:         []v1.PodCondition{{Type: v1.PodInitialized, Status: yes}},
			initialized: cond{Status: yes},
			ready:       cond{Status: no, Reason: "ContainersNotReady", Message: "containers with unready status: [s a b]"},
		},
		{
			desc:        "succeeded",
			status:      v1.PodStatus{Phase: v1.PodSucceeded, InitContainerStatuses: list(done, isReady("s")), ContainerStatuses: list(isReady("a"), isReady("b"))},
			initialized: cond{Status: yes, Reason: "PodCompleted"},
			ready:       cond{Status: no, Reason: "PodCompleted"},
		},
		{
			desc:        "failed during initialisation",
			status:      v1.PodStatus{Phase: v1.PodFailed, InitContainerStatuses: list(ended("i", 1), waiting("s")), ContainerStatuses: list(waiting("a"), waiting("b"))},
			initialized: cond{Status: no, Reason: "ContainersNotInitialized", Message: "containers with incomplete status: [i s]"},
			ready:       cond{Status: no, Reason: "PodFailed"},
		},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			g := generation{in: Input{Pod: pod}, old: &v1.PodStatus{Conditions: tt.old}}
			tt.initialized.Type = v1.PodInitialized
			if d := cmp.Diff(tt.initialized, g.initialized(&tt.status)); d != "" {
				t.Errorf("Initialized -want +got:\n%s", d)
			}
			containersReady := g.containersReady(&tt.status)
			tt.ready.Type = v1.ContainersReady
			if d := cmp.Diff(tt.ready, containersReady); d != "" {
				t.Errorf("ContainersReady -want +got:\n%s", d)
			}
			tt.ready.Type = v1.PodReady
			if d := cmp.Diff(tt.ready, g.ready(containersReady, nil)); d != "" {
				t.Errorf("Ready -want +got:\n%s", d)
			}
		})
	}
}

func TestReadinessGatesHoldReadyBack(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{ReadinessGates: []v1.PodReadinessGate{{ConditionType: "x/one"}, {ConditionType: "x/two"}}}}
	g := generation{in: Input{Pod: pod}}
	ready := v1.PodCondition{Type: v1.ContainersReady, Status: v1.ConditionTrue}
	for _, tt := range []struct {
		desc   string
		others []v1.PodCondition
		want   v1.PodCondition
	}{
		{
			desc: "one is false, one missing", others: []v1.PodCondition{{Type: "x/one", Status: v1.ConditionFalse}},
			want: v1.PodCondition{
				Type: v1.PodReady, Status: v1.ConditionFalse, Reason: "ReadinessGatesNotReady",
				Message: `the status of pod readiness gate "x/one" is not "True", but False, ` +
					`corresponding condition of pod readiness gate "x/two" does not exist.`,
			},
		},
		{
			desc: "both are true", others: []v1.PodCondition{{Type: "x/one", Status: v1.ConditionTrue}, {Type: "x/two", Status: v1.ConditionTrue}},
			want: v1.PodCondition{Type: v1.PodReady, Status: v1.ConditionTrue},
		},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			if d := cmp.Diff(tt.want, g.ready(ready, tt.others)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestTransitionTimesChangeOnlyWithTheStatus(t *testing.T) {
	before, now, own := time.Unix(100, 0), time.Unix(200, 0), time.Unix(150, 0)
	c := func(status v1.ConditionStatus, at time.Time) v1.PodCondition {
		c := v1.PodCondition{Type: v1.PodReady, Status: status}
		if !at.IsZero() {
			c.LastTransitionTime = metav1.NewTime(at)
		}
		return c
	}
	for _, tt := range []struct {
		desc     string
		old, new v1.PodCondition
		want     time.Time
	}{
		{desc: "the same status", old: c("True", before), new: c("True", time.Time{}), want: before},
		{desc: "the same status with another time", old: c("True", before), new: c("True", own), want: before},
		{desc: "another status", old: c("True", before), new: c("False", time.Time{}), want: now},
		{desc: "another status with the old time", old: c("True", before), new: c("False", before), want: now},
		{desc: "another status that changed earlier", old: c("True", before), new: c("False", own), want: own},
		{desc: "nothing before", old: v1.PodCondition{Type: "x"}, new: c("True", time.Time{}), want: now},
		{desc: "the same status without a time before", old: c("True", time.Time{}), new: c("True", time.Time{}), want: now},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			list := []v1.PodCondition{tt.new, {Type: "foreign", Status: "True"}}
			keepTransitionTimes(list, []v1.PodCondition{tt.old}, now)
			if got := list[0].LastTransitionTime.Time; !got.Equal(tt.want) {
				t.Errorf("the time is %v, want %v", got, tt.want)
			}
			if !list[1].LastTransitionTime.IsZero() {
				t.Error("the condition of another was touched")
			}
		})
	}
}
