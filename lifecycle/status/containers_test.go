// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tombolo-dev/tombolo/cri"
)

// at is a moment of the tests.
func at(second int) time.Time { return time.Date(2026, 1, 2, 3, 0, second, 0, time.UTC) }

// rec is a record that was created and started at a second and has its number as its id.
func rec(number int32, state cri.ContainerState, second int) cri.ContainerStatus {
	return cri.ContainerStatus{
		ID: fmt.Sprintf("c%d", number), Name: "a", State: state, RestartCount: number, CreatedAt: at(second), StartedAt: at(second),
	}
}

func exited(number int32, code int32, second int) cri.ContainerStatus {
	r := rec(number, cri.ContainerExited, second)
	r.ExitCode, r.FinishedAt = code, at(second+1)
	return r
}

// lost is a record whose exit code containerd does not know.
func lost(number int32, second int) cri.ContainerStatus {
	r := exited(number, runtimeExitCodeUnknown, second)
	r.Reason = runtimeReasonUnknown
	return r
}

// told is a status that was given out before, of the instance of that number.
func told(number int32, state, last v1.ContainerState) *v1.ContainerStatus {
	return &v1.ContainerStatus{
		Name: "a", ContainerID: fmt.Sprintf("containerd://c%d", number), RestartCount: number, State: state, LastTerminationState: last,
	}
}

func ran(second int) v1.ContainerState {
	return v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(at(second))}}
}

func wait() v1.ContainerState {
	return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
}

func over(number, code int32, second int) v1.ContainerState {
	return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
		ContainerID: fmt.Sprintf("containerd://c%d", number), ExitCode: code,
		StartedAt: metav1.NewTime(at(second)), FinishedAt: metav1.NewTime(at(second + 1)),
	}}
}

func guessed(number int32) v1.ContainerState {
	return v1.ContainerState{Terminated: guess("", fmt.Sprintf("containerd://c%d", number))}
}

// brief is a container status in a line: state, last state, restart count.
func brief(st v1.ContainerStatus) string {
	state := func(s v1.ContainerState) string {
		switch {
		case s.Running != nil:
			return "running"
		case s.Waiting != nil:
			return "waiting"
		case s.Terminated != nil && isGuess(s.Terminated):
			return fmt.Sprintf("unknown(%d)", s.Terminated.ExitCode)
		case s.Terminated != nil:
			return fmt.Sprintf("%s ended(%d)", strings.TrimPrefix(s.Terminated.ContainerID, "containerd://"), s.Terminated.ExitCode)
		default:
			return "-"
		}
	}
	return fmt.Sprintf("%s, last %s, restarts %d", state(st.State), state(st.LastTerminationState), st.RestartCount)
}

func TestContainerHistory(t *testing.T) {
	none := v1.ContainerState{}
	for _, tt := range []struct {
		desc    string
		records []cri.ContainerStatus
		old     *v1.ContainerStatus
		reason  bool
		deleted bool
		over    bool
		policy  v1.RestartPolicy
		want    string
	}{
		{desc: "never seen", want: "waiting, last -, restarts 0"},
		{desc: "created", records: []cri.ContainerStatus{rec(0, cri.ContainerCreated, 1)}, want: "waiting, last -, restarts 0"},
		{desc: "running", records: []cri.ContainerStatus{rec(0, cri.ContainerRunning, 1)}, want: "running, last -, restarts 0"},
		{desc: "ended", records: []cri.ContainerStatus{exited(0, 3, 1)}, want: "c0 ended(3), last -, restarts 0"},
		{desc: "ended and held back", reason: true, records: []cri.ContainerStatus{exited(0, 3, 1)}, want: "waiting, last c0 ended(3), restarts 0"},
		{desc: "running again", records: []cri.ContainerStatus{rec(1, cri.ContainerRunning, 5), exited(0, 3, 1)}, want: "running, last c0 ended(3), restarts 1"},
		{
			desc: "running again, the earlier record is gone", records: []cri.ContainerStatus{rec(1, cri.ContainerRunning, 5)},
			old: told(0, over(0, 3, 1), none), want: "running, last c0 ended(3), restarts 1",
		},
		{
			desc: "running again after back-off, the earlier record is gone", records: []cri.ContainerStatus{rec(1, cri.ContainerRunning, 5)},
			old: told(0, wait(), over(0, 3, 1)), want: "running, last c0 ended(3), restarts 1",
		},
		{
			desc: "running again with all records lost", records: []cri.ContainerStatus{{ID: "x", Name: "a", State: cri.ContainerRunning, CreatedAt: at(9)}},
			old: told(7, over(7, 3, 1), none), want: "running, last c7 ended(3), restarts 8",
		},
		{
			desc: "the same instance is not counted again", records: []cri.ContainerStatus{rec(7, cri.ContainerRunning, 5)},
			old: told(7, ran(5), none), want: "running, last -, restarts 7",
		},
		{
			desc: "made but not started twice is no restart", records: []cri.ContainerStatus{{ID: "x", Name: "a", State: cri.ContainerCreated}},
			old: told(0, wait(), none), want: "waiting, last -, restarts 0",
		},
		{desc: "ran and is gone", old: told(2, ran(1), none), want: "waiting, last unknown(137), restarts 3"},
		{desc: "ran and is gone while the pod is deleted", deleted: true, old: told(2, ran(1), none), want: "waiting, last unknown(137), restarts 2"},
		{desc: "ran and is gone, an earlier end is known", old: told(2, ran(5), over(1, 6, 1)), want: "waiting, last c1 ended(6), restarts 3"},
		{
			desc: "running again, and nobody saw the end before", records: []cri.ContainerStatus{rec(1, cri.ContainerRunning, 5)},
			old: told(0, ran(1), none), want: "running, last unknown(137), restarts 1",
		},
		{
			desc: "running again after it was gone", records: []cri.ContainerStatus{{ID: "x", Name: "a", State: cri.ContainerRunning, RestartCount: 1, CreatedAt: at(9)}},
			old: &v1.ContainerStatus{Name: "a", RestartCount: 3, State: wait(), LastTerminationState: guessed(2)}, want: "running, last unknown(137), restarts 3",
		},
		{desc: "ended and is gone", old: told(2, over(2, 6, 1), none), want: "c2 ended(6), last -, restarts 2"},
		{desc: "ended, is gone and is held back", reason: true, old: told(2, over(2, 6, 1), none), want: "waiting, last c2 ended(6), restarts 2"},
		{desc: "held back and gone", old: told(2, wait(), over(2, 6, 1)), want: "waiting, last c2 ended(6), restarts 2"},
		{
			desc: "held back, gone, and the pod is deleted", deleted: true, reason: true,
			old: told(2, wait(), over(2, 6, 1)), want: "c2 ended(6), last -, restarts 2",
		},
		{
			desc: "ended for good, is gone, and is held back", policy: v1.RestartPolicyNever, reason: true,
			old: told(2, over(2, 6, 1), none), want: "c2 ended(6), last -, restarts 2",
		},
		{
			desc: "held back, and the pod was stopped for good", over: true, reason: true, records: []cri.ContainerStatus{exited(2, 6, 9)},
			old: told(2, wait(), over(2, 6, 9)), want: "c2 ended(6), last -, restarts 2",
		},
		{
			desc: "the last instance's code is lost, an earlier one is known", records: []cri.ContainerStatus{rec(2, cri.ContainerRunning, 9), lost(1, 5)},
			old: told(1, ran(5), over(0, 6, 1)), want: "running, last unknown(255), restarts 2",
		},
		{
			desc: "held back, then shown as it is", records: []cri.ContainerStatus{exited(2, 6, 9)},
			old: told(2, wait(), over(2, 6, 9)), want: "c2 ended(6), last -, restarts 2",
		},
		{
			desc: "ended, the newest record is gone and an older one is not", records: []cri.ContainerStatus{exited(1, 3, 1)},
			old: told(2, over(2, 0, 5), none), want: "c2 ended(0), last c1 ended(3), restarts 2",
		},
		{
			desc: "running, the newest record is gone and an older one is not", records: []cri.ContainerStatus{exited(1, 3, 1)},
			old: told(2, ran(5), none), want: "waiting, last c1 ended(3), restarts 3",
		},
		{
			desc: "held back, the newest record is gone and an older one is not", records: []cri.ContainerStatus{exited(1, 3, 1)}, reason: true,
			old: told(2, wait(), over(2, 6, 5)), want: "waiting, last c2 ended(6), restarts 2",
		},
		{
			desc: "the record between two is gone", records: []cri.ContainerStatus{rec(3, cri.ContainerRunning, 20), exited(1, 3, 1)},
			old: told(2, over(2, 6, 10), over(1, 3, 1)), want: "running, last c2 ended(6), restarts 3",
		},
		{
			desc: "state unknown, was running", records: []cri.ContainerStatus{rec(0, cri.ContainerUnknown, 1)},
			old: told(0, ran(1), none), want: "unknown(137), last -, restarts 1",
		},
		{
			desc: "state unknown, and that was told before", records: []cri.ContainerStatus{rec(0, cri.ContainerUnknown, 1)},
			old:  &v1.ContainerStatus{Name: "a", ContainerID: "containerd://c0", RestartCount: 1, State: guessed(0)},
			want: "unknown(137), last -, restarts 1",
		},
		{
			desc: "running again after its state was unknown", records: []cri.ContainerStatus{rec(1, cri.ContainerRunning, 5), rec(0, cri.ContainerUnknown, 1)},
			old:  &v1.ContainerStatus{Name: "a", ContainerID: "containerd://c0", RestartCount: 1, State: guessed(0)},
			want: "running, last unknown(137), restarts 1",
		},
		{
			desc: "state unknown, end known", records: []cri.ContainerStatus{rec(0, cri.ContainerUnknown, 1)},
			old: told(0, over(0, 6, 1), none), want: "c0 ended(6), last -, restarts 0",
		},
		{
			desc: "state unknown, never ran", records: []cri.ContainerStatus{rec(0, cri.ContainerUnknown, 1)},
			want: "waiting, last -, restarts 0",
		},
		{
			desc: "the real code replaces a guess", records: []cri.ContainerStatus{exited(0, 6, 1)},
			old: told(0, guessed(0), none), want: "c0 ended(6), last -, restarts 0",
		},
		{
			desc: "the runtime's guess does not replace the real code", records: []cri.ContainerStatus{lost(0, 1)},
			old: told(0, over(0, 6, 1), none), want: "c0 ended(6), last -, restarts 0",
		},
		{
			desc: "nor that of the last instance", records: []cri.ContainerStatus{rec(1, cri.ContainerRunning, 5), lost(0, 1)},
			old: told(1, ran(5), over(0, 6, 1)), want: "running, last c0 ended(6), restarts 1",
		},
		{desc: "the runtime's guess is better than nothing", records: []cri.ContainerStatus{lost(0, 1)}, want: "unknown(255), last -, restarts 0"},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			pod := &v1.Pod{Spec: v1.PodSpec{RestartPolicy: tt.policy, Containers: []v1.Container{{Name: "a"}}}}
			if tt.deleted {
				pod.DeletionTimestamp = &metav1.Time{Time: at(30)}
			}
			in := Input{
				Pod: pod, Now: at(40), Terminal: tt.over, Runtime: &cri.PodStatus{Containers: tt.records},
				WaitingReason: func(string) (string, string, bool) { return "CrashLoopBackOff", "", tt.reason },
			}
			if tt.old != nil {
				in.Cached = &v1.PodStatus{ContainerStatuses: list(*tt.old)}
			}
			status := Generate(in)
			if got := brief(status.ContainerStatuses[0]); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestInitContainerThatSucceededIsNotHeldBack(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{InitContainers: []v1.Container{{Name: "a"}}, Containers: []v1.Container{{Name: "main"}}}}
	for _, tt := range []struct {
		desc   string
		code   int32
		reason string
		want   string
	}{
		{desc: "succeeded", want: "c0 ended(0), last -, restarts 0"},
		{desc: "failed", code: 1, want: "waiting, last c0 ended(1), restarts 0"},
		{desc: "killed for memory with exit code 0", reason: "OOMKilled", want: "waiting, last c0 ended(0), restarts 0"},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			record := exited(0, tt.code, 1)
			record.Reason = tt.reason
			status := Generate(Input{
				Pod: pod, Runtime: &cri.PodStatus{Containers: []cri.ContainerStatus{record}},
				WaitingReason: func(string) (string, string, bool) { return "CrashLoopBackOff", "", true },
			})
			if got := brief(status.InitContainerStatuses[0]); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestRestartCountIsNeverLowerThanTheAPIs(t *testing.T) {
	pod := &v1.Pod{
		Spec:   v1.PodSpec{Containers: []v1.Container{{Name: "a"}}},
		Status: v1.PodStatus{ContainerStatuses: list(*told(5, ran(1), v1.ContainerState{}))},
	}
	cached := &v1.PodStatus{ContainerStatuses: list(*told(2, ran(1), v1.ContainerState{}))}
	status := Generate(Input{Pod: pod, Cached: cached, Runtime: &cri.PodStatus{Containers: []cri.ContainerStatus{rec(2, cri.ContainerRunning, 1)}}})
	if got := status.ContainerStatuses[0].RestartCount; got != 5 {
		t.Errorf("the restart count is %d, want the 5 of the API", got)
	}
}

func TestEphemeralContainersAreNeverReady(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{EphemeralContainers: []v1.EphemeralContainer{
		{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "a"}},
	}}}
	status := Generate(Input{Pod: pod, Runtime: &cri.PodStatus{Containers: []cri.ContainerStatus{rec(0, cri.ContainerRunning, 1)}}})
	st := status.EphemeralContainerStatuses[0]
	if st.State.Running == nil || st.Ready || st.Started != nil {
		t.Errorf("got %s, ready %v, started %v", brief(st), st.Ready, st.Started)
	}
}
