// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package termination

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tombolo-dev/tombolo/cri"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestBudgetIsSharedAndHasFloors(t *testing.T) {
	for _, tc := range []struct {
		name       string
		left       time.Duration
		hook, stop time.Duration
	}{
		{"plenty", 30 * time.Second, 30 * time.Second, 30 * time.Second},
		{"fractions are kept", 2500 * time.Millisecond, 2500 * time.Millisecond, 2500 * time.Millisecond},
		{"less than a container's minimum", 1500 * time.Millisecond, 1500 * time.Millisecond, 2 * time.Second},
		{"less than a hook's minimum", 200 * time.Millisecond, time.Second, 2 * time.Second},
		{"used up", 0, time.Second, 2 * time.Second},
		{"long past", -time.Hour, time.Second, 2 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := hookTime(noon.Add(tc.left), noon); got != tc.hook {
				t.Errorf("hookTime = %s, want %s", got, tc.hook)
			}
			if got := stopGrace(noon.Add(tc.left), noon); got != tc.stop {
				t.Errorf("stopGrace = %s, want %s", got, tc.stop)
			}
		})
	}
}

func TestPodGrace(t *testing.T) {
	for _, tc := range []struct {
		name string
		pod  *v1.Pod
		want time.Duration
	}{
		{"nothing set", &v1.Pod{}, 2 * time.Second},
		{"spec", &v1.Pod{Spec: v1.PodSpec{TerminationGracePeriodSeconds: new(int64(45))}}, 45 * time.Second},
		{"zero in the spec", &v1.Pod{Spec: v1.PodSpec{TerminationGracePeriodSeconds: new(int64(0))}}, 0},
		{"deletion goes before spec", &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{DeletionGracePeriodSeconds: new(int64(7))},
			Spec:       v1.PodSpec{TerminationGracePeriodSeconds: new(int64(45))},
		}, 7 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := podGrace(tc.pod); got != tc.want {
				t.Errorf("podGrace = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestDeadlineOnlyMovesCloser(t *testing.T) {
	m := newMemory()
	for i, step := range []struct {
		ask, want time.Duration
		first     bool
	}{
		{30 * time.Second, 30 * time.Second, true},
		{60 * time.Second, 30 * time.Second, false},
		{10 * time.Second, 10 * time.Second, false},
		{20 * time.Second, 10 * time.Second, false},
	} {
		got, first := m.begin("u", "c", budget{own: noon.Add(step.ask)})
		if !got.Equal(noon.Add(step.want)) || first != step.first {
			t.Errorf("step %d: begin = %s first %t, want %s first %t", i, got.Sub(noon), first, step.want, step.first)
		}
	}
	if got, _ := m.begin("u", "c", budget{pods: noon.Add(time.Hour)}); !got.Equal(noon.Add(10 * time.Second)) {
		t.Errorf("the pod's deadline moved the container's own to %s", got.Sub(noon))
	}
	if got, first := m.begin("u", "other", budget{pods: noon.Add(time.Minute)}); !got.Equal(noon.Add(time.Minute)) || !first {
		t.Error("another container must have a deadline of its own")
	}
}

func TestGraceOfASingleContainer(t *testing.T) {
	probe := &v1.Probe{TerminationGracePeriodSeconds: new(int64(40))}
	for _, tt := range []struct {
		desc     string
		kill     ContainerKill
		deletion *int64
		want     time.Duration
	}{
		{desc: "the pod's", kill: ContainerKill{Why: "DefinitionChanged"}, want: 7 * time.Second},
		{desc: "the liveness probe's", kill: ContainerKill{Why: KillLivenessFailed}, want: 40 * time.Second},
		{desc: "the startup probe has none", kill: ContainerKill{Why: KillStartupFailed}, want: 7 * time.Second},
		{desc: "deletion wins over the probe's", kill: ContainerKill{Why: KillLivenessFailed}, deletion: new(int64(3)), want: 3 * time.Second},
		{desc: "none", kill: ContainerKill{Why: KillLivenessFailed, NoGrace: true}},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			pod := &v1.Pod{Spec: v1.PodSpec{
				TerminationGracePeriodSeconds: new(int64(7)),
				Containers:                    []v1.Container{{Name: "web", LivenessProbe: probe, StartupProbe: &v1.Probe{}}},
			}}
			pod.DeletionGracePeriodSeconds = tt.deletion
			tt.kill.Pod, tt.kill.Container = pod, &cri.ContainerStatus{Name: "web"}
			if got := tt.kill.grace(); got != tt.want {
				t.Errorf("grace %s, want %s", got, tt.want)
			}
		})
	}
}
