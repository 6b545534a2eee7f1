// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// words tells the state of each container in a word or two.
func words(statuses []v1.ContainerStatus) []string {
	var out []string
	for _, st := range statuses {
		word := "waiting"
		switch {
		case st.State.Running != nil:
			word = "running"
		case st.State.Terminated != nil && isGuess(st.State.Terminated):
			word = "unknown 137"
		case st.State.Terminated != nil:
			word = map[int32]string{0: "ended 0", 6: "ended 6"}[st.State.Terminated.ExitCode]
		}
		out = append(out, st.Name+" "+word)
	}
	return out
}

func TestFinalClosesWhatMayHaveRun(t *testing.T) {
	own := again("a", 6)
	own.ContainerID, own.LastTerminationState.Terminated.ContainerID = "c1", "c1"
	for _, tt := range []struct {
		desc       string
		init, main []v1.ContainerStatus
		side       bool
		wantInit   []string
		wantMain   []string
	}{
		{desc: "no status at all"},
		{desc: "running", main: list(isReady("a")), wantMain: []string{"a unknown 137"}},
		{desc: "never started", main: list(waiting("a")), wantMain: []string{"a unknown 137"}},
		{desc: "ended", main: list(ended("a", 6)), wantMain: []string{"a ended 6"}},
		{desc: "waiting after an end that is known to be the newest", main: list(own), wantMain: []string{"a ended 6"}},
		{desc: "waiting after an earlier end", main: list(again("a", 6)), wantMain: []string{"a unknown 137"}},
		{
			desc: "never past the init containers", init: list(waiting("i"), waiting("j")), main: list(waiting("a")),
			wantInit: []string{"i unknown 137", "j waiting"}, wantMain: []string{"a waiting"},
		},
		{
			desc: "stopped in the first init container", init: list(running("i"), waiting("j")), main: list(waiting("a")),
			wantInit: []string{"i unknown 137", "j waiting"}, wantMain: []string{"a waiting"},
		},
		{
			desc: "stopped in the second init container", init: list(ended("i", 0), running("j")), main: list(waiting("a")),
			wantInit: []string{"i ended 0", "j unknown 137"}, wantMain: []string{"a waiting"},
		},
		{
			desc: "stopped after the init containers", init: list(ended("i", 0), ended("j", 0)), main: list(waiting("a")),
			wantInit: []string{"i ended 0", "j ended 0"}, wantMain: []string{"a unknown 137"},
		},
		{
			desc: "a main container proves that the pod was initialised", init: list(ended("i", 0), waiting("j")), main: list(running("a")),
			wantInit: []string{"i ended 0", "j waiting"}, wantMain: []string{"a unknown 137"},
		},
		{
			desc: "the last init container is a sidecar that had started", side: true, init: list(ended("i", 0), running("j")), main: list(waiting("a")),
			wantInit: []string{"i ended 0", "j unknown 137"}, wantMain: []string{"a unknown 137"},
		},
		{
			desc: "the last init container is a sidecar that had not started", side: true, init: list(ended("i", 0), starting("j")), main: list(waiting("a")),
			wantInit: []string{"i ended 0", "j unknown 137"}, wantMain: []string{"a waiting"},
		},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "a"}}}}
			if tt.init != nil {
				pod.Spec.InitContainers = []v1.Container{{Name: "i"}, {Name: "j"}}
			}
			if tt.side {
				pod.Spec.InitContainers[1].RestartPolicy = new(v1.ContainerRestartPolicyAlways)
			}
			last := &v1.PodStatus{
				Phase: v1.PodRunning, InitContainerStatuses: tt.init, ContainerStatuses: tt.main,
				Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}, {Type: "foreign", Status: v1.ConditionTrue}},
			}
			before := last.DeepCopy()
			got := final(pod, last, time.Unix(200, 0))
			if d := cmp.Diff(before, last); d != "" {
				t.Errorf("the last status was changed:\n%s", d)
			}
			if d := cmp.Diff(tt.wantInit, words(got.InitContainerStatuses)); d != "" {
				t.Errorf("init containers -want +got:\n%s", d)
			}
			if d := cmp.Diff(tt.wantMain, words(got.ContainerStatuses)); d != "" {
				t.Errorf("containers -want +got:\n%s", d)
			}
			if got.Phase != v1.PodFailed {
				t.Errorf("the phase is %s, want Failed", got.Phase)
			}
			if c := condition(got.Conditions, v1.PodReady); c.Status != v1.ConditionFalse || c.Reason != "PodFailed" {
				t.Errorf("a pod that is over is said to be ready: %+v", c)
			}
			for _, st := range got.ContainerStatuses {
				if st.State.Terminated != nil && (st.Ready || ptr.Deref(st.Started, false)) {
					t.Errorf("container %s has ended and is ready or started", st.Name)
				}
			}
		})
	}
}

func TestFinalKeepsATerminalPhase(t *testing.T) {
	for _, p := range []v1.PodPhase{v1.PodSucceeded, v1.PodFailed} {
		if got := final(&v1.Pod{}, &v1.PodStatus{Phase: p, Reason: "r"}, time.Time{}); got.Phase != p || got.Reason != "r" {
			t.Errorf("%s became %s %q", p, got.Phase, got.Reason)
		}
	}
}

func TestTransitions(t *testing.T) {
	sidecar := v1.Container{Name: "a", RestartPolicy: new(v1.ContainerRestartPolicyAlways)}
	for _, tt := range []struct {
		desc      string
		policy    v1.RestartPolicy
		container v1.Container
		old, new  v1.ContainerStatus
		wantErr   bool
	}{
		{desc: "Never, success, running again", policy: v1.RestartPolicyNever, old: ended("a", 0), new: running("a"), wantErr: true},
		{desc: "Never, failure, waiting again", policy: v1.RestartPolicyNever, old: ended("a", 1), new: waiting("a"), wantErr: true},
		{desc: "OnFailure, success, running again", policy: v1.RestartPolicyOnFailure, old: ended("a", 0), new: running("a"), wantErr: true},
		{desc: "OnFailure, failure, running again", policy: v1.RestartPolicyOnFailure, old: ended("a", 1), new: running("a")},
		{desc: "Always, success, running again", policy: v1.RestartPolicyAlways, old: ended("a", 0), new: running("a")},
		{desc: "Never, still ended", policy: v1.RestartPolicyNever, old: ended("a", 1), new: ended("a", 1)},
		{desc: "Never, from running to waiting", policy: v1.RestartPolicyNever, old: running("a"), new: waiting("a")},
		{desc: "Never, not known any more", policy: v1.RestartPolicyNever, old: ended("a", 0), new: running("other")},
		{desc: "Never, a guess, waiting again", policy: v1.RestartPolicyNever, old: endedSomehow("a"), new: waiting("a")},
		{desc: "Never, a guess, running again", policy: v1.RestartPolicyNever, old: endedSomehow("a"), new: running("a")},
		{desc: "Never, another instance runs", policy: v1.RestartPolicyNever, old: ended("a", 1), new: another(running("a"))},
		{desc: "Never, another instance waits", policy: v1.RestartPolicyNever, old: ended("a", 1), new: another(waiting("a")), wantErr: true},
		{desc: "a sidecar may always run again", policy: v1.RestartPolicyNever, container: sidecar, old: ended("a", 0), new: running("a")},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			c := tt.container
			c.Name = "a"
			for _, init := range []bool{true, false} {
				pod := &v1.Pod{Spec: v1.PodSpec{RestartPolicy: tt.policy}}
				var old, status v1.PodStatus
				if init {
					pod.Spec.InitContainers = []v1.Container{c}
					old.InitContainerStatuses, status.InitContainerStatuses = list(tt.old), list(tt.new)
				} else {
					pod.Spec.Containers = []v1.Container{c}
					old.ContainerStatuses, status.ContainerStatuses = list(tt.old), list(tt.new)
				}
				if err := checkTransition(pod, &old, &status); (err != nil) != tt.wantErr {
					t.Errorf("init %v: checkTransition() = %v, want an error: %v", init, err, tt.wantErr)
				}
			}
		})
	}
}
