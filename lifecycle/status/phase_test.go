// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// Short words for container statuses: what a table reads best.
func running(name string) v1.ContainerStatus {
	return v1.ContainerStatus{Name: name, Started: new(true), State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}
}

func starting(name string) v1.ContainerStatus {
	st := running(name)
	st.Started = new(false)
	return st
}

func ended(name string, code int32) v1.ContainerStatus {
	return v1.ContainerStatus{Name: name, State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code}}}
}

func waiting(name string) v1.ContainerStatus {
	return v1.ContainerStatus{Name: name, State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{}}}
}

// again waits to start again after it ended with the code.
func again(name string, code int32) v1.ContainerStatus {
	st := waiting(name)
	st.LastTerminationState.Terminated = &v1.ContainerStateTerminated{ExitCode: code}
	return st
}

// endedSomehow has ended, and nobody saw how.
func endedSomehow(name string) v1.ContainerStatus {
	st := ended(name, exitCodeUnknown)
	st.State.Terminated.Reason = reasonStatusUnknown
	return st
}

// another is the same of another instance.
func another(st v1.ContainerStatus) v1.ContainerStatus {
	st.ContainerID = "containerd://another"
	return st
}

func list(statuses ...v1.ContainerStatus) []v1.ContainerStatus { return statuses }

func TestPhase(t *testing.T) {
	const (
		always    = v1.RestartPolicyAlways
		onFailure = v1.RestartPolicyOnFailure
		never     = v1.RestartPolicyNever
	)
	nothing := v1.ContainerStatus{}
	for _, tt := range []struct {
		desc     string
		policy   v1.RestartPolicy
		init     []v1.ContainerStatus // of the init containers i and j
		side     *v1.ContainerStatus  // of the sidecar s
		main     []v1.ContainerStatus // of a and b
		terminal bool
		pastInit bool
		want     v1.PodPhase
	}{
		{desc: "nothing is known", policy: always, want: v1.PodPending},
		{desc: "all wait", policy: always, main: list(waiting("a"), waiting("b")), want: v1.PodPending},
		{desc: "one waits, one runs", policy: always, main: list(running("a"), waiting("b")), want: v1.PodPending},
		{desc: "one is not known, one runs", policy: always, main: list(running("a")), want: v1.PodPending},
		{desc: "one has no state at all", policy: always, main: list(running("a"), v1.ContainerStatus{Name: "b"}), want: v1.PodPending},
		{desc: "all run", policy: always, main: list(running("a"), running("b")), want: v1.PodRunning},
		{desc: "one runs, one ended", policy: never, main: list(running("a"), ended("b", 1)), want: v1.PodRunning},
		{desc: "one runs, one will start again", policy: always, main: list(running("a"), again("b", 1)), want: v1.PodRunning},
		{desc: "all will start again", policy: always, main: list(again("a", 0), again("b", 1)), want: v1.PodRunning},
		{desc: "Always and all ended", policy: always, main: list(ended("a", 0), ended("b", 0)), want: v1.PodRunning},
		{desc: "OnFailure and all succeeded", policy: onFailure, main: list(ended("a", 0), ended("b", 0)), want: v1.PodSucceeded},
		{desc: "OnFailure and one failed", policy: onFailure, main: list(ended("a", 0), ended("b", 1)), want: v1.PodRunning},
		{desc: "OnFailure and one waits after a failure", policy: onFailure, main: list(ended("a", 0), again("b", 1)), want: v1.PodRunning},
		{desc: "Never and all succeeded", policy: never, main: list(ended("a", 0), ended("b", 0)), want: v1.PodSucceeded},
		{desc: "Never and one failed", policy: never, main: list(ended("a", 0), ended("b", 1)), want: v1.PodFailed},
		{desc: "Never and one waits after a success", policy: never, main: list(ended("a", 0), again("b", 0)), want: v1.PodFailed},

		{desc: "stopped for good, Always, all succeeded", policy: always, terminal: true, main: list(ended("a", 0), ended("b", 0)), want: v1.PodSucceeded},
		{desc: "stopped for good, Always, one killed", policy: always, terminal: true, main: list(ended("a", 0), ended("b", 137)), want: v1.PodFailed},
		{desc: "stopped for good, one waits after a success", policy: always, terminal: true, main: list(ended("a", 0), again("b", 0)), want: v1.PodFailed},
		{desc: "stopped for good before all started", policy: always, terminal: true, main: list(ended("a", 0), waiting("b")), want: v1.PodPending},

		{desc: "an init container runs", policy: always, init: list(running("i"), waiting("j")), main: list(waiting("a"), waiting("b")), want: v1.PodPending},
		{desc: "an init container is not known", policy: always, init: list(ended("i", 0), nothing), main: list(running("a"), running("b")), want: v1.PodPending},
		{desc: "an init container failed and starts again", policy: onFailure, init: list(ended("i", 1), waiting("j")), main: list(waiting("a"), waiting("b")), want: v1.PodPending},
		{desc: "an init container failed for good", policy: never, init: list(ended("i", 1), waiting("j")), main: list(waiting("a"), waiting("b")), want: v1.PodFailed},
		{desc: "an init container failed for good and waits", policy: never, init: list(again("i", 1), waiting("j")), main: list(waiting("a"), waiting("b")), want: v1.PodFailed},
		{desc: "all init containers succeeded", policy: never, init: list(ended("i", 0), ended("j", 0)), main: list(running("a"), running("b")), want: v1.PodRunning},

		{desc: "a sidecar is not known", policy: always, side: &nothing, main: list(running("a"), running("b")), want: v1.PodPending},
		{desc: "a sidecar waits for the first time", policy: always, side: new(waiting("s")), main: list(waiting("a"), waiting("b")), want: v1.PodPending},
		{desc: "a sidecar has not started and main has", policy: always, side: new(starting("s")), main: list(running("a"), running("b")), pastInit: true, want: v1.PodRunning},
		{desc: "a sidecar has not started and nothing else", policy: always, side: new(starting("s")), main: list(ended("a", 1), ended("b", 1)), want: v1.PodPending},
		{desc: "a sidecar waits to start again", policy: always, side: new(again("s", 1)), main: list(running("a"), running("b")), pastInit: true, want: v1.PodRunning},
		{desc: "a sidecar runs after main ended", policy: never, side: new(running("s")), main: list(ended("a", 0), ended("b", 0)), pastInit: true, want: v1.PodRunning},
		{desc: "a sidecar that failed does not spoil the pod", policy: never, side: new(ended("s", 1)), main: list(ended("a", 0), ended("b", 0)), terminal: true, want: v1.PodSucceeded},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			pod := &v1.Pod{Spec: v1.PodSpec{RestartPolicy: tt.policy, Containers: []v1.Container{{Name: "a"}, {Name: "b"}}}}
			status := &v1.PodStatus{ContainerStatuses: tt.main, InitContainerStatuses: tt.init}
			if tt.init != nil {
				pod.Spec.InitContainers = []v1.Container{{Name: "i"}, {Name: "j"}}
			}
			if tt.side != nil {
				pod.Spec.InitContainers = append(pod.Spec.InitContainers,
					v1.Container{Name: "s", RestartPolicy: new(v1.ContainerRestartPolicyAlways)})
				status.InitContainerStatuses = append(status.InitContainerStatuses, *tt.side)
			}
			if got := phase(pod, status, tt.terminal, tt.pastInit); got != tt.want {
				t.Errorf("phase() = %s, want %s", got, tt.want)
			}
		})
	}
}

func TestGeneratedPhaseIsFinal(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyNever, Containers: []v1.Container{{Name: "a"}}}}
	for _, tt := range []struct {
		desc                    string
		api, cached             v1.PodStatus
		wantPhase               v1.PodPhase
		wantReason, wantMessage string
	}{
		{
			desc: "that of the API", api: v1.PodStatus{Phase: v1.PodFailed, Reason: "NodeLost", Message: "why"},
			cached: v1.PodStatus{Phase: v1.PodRunning}, wantPhase: v1.PodFailed, wantReason: "NodeLost", wantMessage: "why",
		},
		{
			desc: "that of the API before ours", api: v1.PodStatus{Phase: v1.PodFailed, Reason: "NodeLost"},
			cached: v1.PodStatus{Phase: v1.PodSucceeded, Reason: "ours"}, wantPhase: v1.PodFailed, wantReason: "NodeLost",
		},
		{
			desc: "ours that the API does not have yet", api: v1.PodStatus{Phase: v1.PodRunning, Reason: "other"},
			cached:    v1.PodStatus{Phase: v1.PodFailed, Reason: "Evicted", Message: "disk"},
			wantPhase: v1.PodFailed, wantReason: "Evicted", wantMessage: "disk",
		},
		{
			desc: "a reason goes with its phase", api: v1.PodStatus{Phase: v1.PodRunning, Reason: "old"},
			cached: v1.PodStatus{Phase: v1.PodRunning, Reason: "old"}, wantPhase: v1.PodPending,
		},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			pod := pod.DeepCopy()
			pod.Status = tt.api
			got := Generate(Input{Pod: pod, Cached: &tt.cached})
			if got.Phase != tt.wantPhase || got.Reason != tt.wantReason || got.Message != tt.wantMessage {
				t.Errorf("Generate() = %s %q %q, want %s %q %q", got.Phase, got.Reason, got.Message,
					tt.wantPhase, tt.wantReason, tt.wantMessage)
			}
		})
	}
}
