// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package exithook

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tombolo-dev/tombolo/cri"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// somePod has a container "a" with a hook, "b" with one, and "c" without.
func somePod() *v1.Pod {
	hook := &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"bye"}}}}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "u", Name: "p", Namespace: "ns", Annotations: map[string]string{Annotation: "true"}},
		Spec: v1.PodSpec{
			RestartPolicy: v1.RestartPolicyOnFailure,
			Containers:    []v1.Container{{Name: "a", Lifecycle: hook}, {Name: "b", Lifecycle: hook}, {Name: "c"}},
		},
	}
}

// allEnded is an observation of somePod: every container ended with 0 at noon.
func allEnded() *cri.PodStatus {
	st := &cri.PodStatus{UID: "u"}
	for _, name := range []string{"a", "b", "c"} {
		st.Containers = append(st.Containers, cri.ContainerStatus{
			ID: name + "1", Name: name, State: cri.ContainerExited, StartedAt: noon.Add(-time.Minute), FinishedAt: noon,
		})
	}
	return st
}

// deleted asks for the deletion at a time, with 30 seconds of grace.
func deleted(asked time.Time) func(*Input) {
	return func(in *Input) {
		in.Completed = false
		in.Pod.DeletionTimestamp, in.Pod.DeletionGracePeriodSeconds = new(metav1.NewTime(asked.Add(30*time.Second))), new(int64(30))
	}
}

func TestHooksAreDueOnlyOfWhatEndedByItself(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change []func(*Input)
		want   []string
	}{
		{name: "a pod that completed", want: []string{"a", "b"}},
		{name: "no annotation", change: []func(*Input){func(in *Input) { in.Pod.Annotations = nil }}},
		{name: "annotation false", change: []func(*Input){func(in *Input) { in.Pod.Annotations[Annotation] = "false" }}},
		{name: "not seen to complete", change: []func(*Input){func(in *Input) { in.Completed = false }}},
		{
			name:   "a container that could not be started",
			change: []func(*Input){func(in *Input) { in.Status.Containers[0].StartedAt = time.Time{} }}, want: []string{"b"},
		},
		{
			name:   "a container whose record is gone",
			change: []func(*Input){func(in *Input) { in.Status.Containers = in.Status.Containers[1:] }}, want: []string{"b"},
		},
		{name: "one that runs again", change: []func(*Input){func(in *Input) { in.Status.Containers[2].State = cri.ContainerRunning }}},
		{name: "one that may run", change: []func(*Input){func(in *Input) { in.Status.Containers[2].State = cri.ContainerUnknown }}},
		{name: "deleted after it completed", change: []func(*Input){deleted(noon), func(in *Input) { in.Completed = true }}, want: []string{"a", "b"}},
		{name: "deleted a second later, by a new process", change: []func(*Input){deleted(noon.Add(time.Second))}, want: []string{"a", "b"}},
		{name: "deleted in the same second, by a new process", change: []func(*Input){deleted(noon)}},
		{name: "stopped by its deletion, seen by a new process", change: []func(*Input){deleted(noon.Add(-time.Second))}},
		{
			name:   "deleted later by a host's clock that is behind",
			change: []func(*Input){deleted(noon.Add(time.Second)), func(in *Input) { in.ClockOffset = -time.Minute }},
		},
		{
			name:   "deleted later while one was to start again",
			change: []func(*Input){deleted(noon.Add(time.Second)), func(in *Input) { in.Status.Containers[2].ExitCode = 1 }},
		},
		{
			name:   "deleted later, failed by another writer before",
			change: []func(*Input){deleted(noon.Add(time.Second)), func(in *Input) { in.Pod.Status.Phase = v1.PodFailed }},
		},
		{
			name: "a hook that an earlier process began",
			change: []func(*Input){deleted(noon), func(in *Input) {
				in.Status.ExitHooks = []cri.ContainerStatus{{ID: "h", HookOf: "b", State: cri.ContainerRunning}}
			}},
			want: []string{"a", "b h"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := Input{Pod: somePod(), Status: allEnded(), Completed: true}
			for _, change := range tc.change {
				change(&in)
			}
			var got []string
			for _, h := range Due(in) {
				text := h.Container.Name
				if h.Record.Name != text {
					t.Errorf("the record of %s is that of %s", text, h.Record.Name)
				}
				if h.Runner != nil {
					text += " " + h.Runner.ID
				}
				got = append(got, text)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("due %v, want %v", got, tc.want)
			}
		})
	}
}

func TestOnlyAPodThatEndedForGoodIsComplete(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*v1.Pod, *cri.PodStatus)
		want   bool
	}{
		"all ended": {func(*v1.Pod, *cri.PodStatus) {}, true},
		"one failed with Never": {func(p *v1.Pod, st *cri.PodStatus) {
			p.Spec.RestartPolicy, st.Containers[0].ExitCode = v1.RestartPolicyNever, 1
		}, true},
		"one is to start again":  {func(_ *v1.Pod, st *cri.PodStatus) { st.Containers[0].ExitCode = 1 }, false},
		"one was never made":     {func(_ *v1.Pod, st *cri.PodStatus) { st.Containers = st.Containers[1:] }, false},
		"one runs":               {func(_ *v1.Pod, st *cri.PodStatus) { st.Containers[1].State = cri.ContainerRunning }, false},
		"ended by another":       {func(p *v1.Pod, _ *cri.PodStatus) { p.Status.Phase = v1.PodFailed }, false},
		"without the annotation": {func(p *v1.Pod, _ *cri.PodStatus) { p.Annotations = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			pod, st := somePod(), allEnded()
			tc.change(pod, st)
			r := New(Options{})
			if got := r.Complete(pod, st); got != tc.want || r.memory.completed(pod.UID) != tc.want {
				t.Errorf("complete %t and remembered %t, want %t", got, r.memory.completed(pod.UID), tc.want)
			}
			if r.Forget(pod.UID); r.memory.completed(pod.UID) {
				t.Error("not forgotten")
			}
		})
	}
}
