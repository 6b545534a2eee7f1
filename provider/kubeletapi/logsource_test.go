// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestTheRunWhoseLogIsShown(t *testing.T) {
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	waiting := func(reason string) v1.ContainerState {
		return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason}}
	}
	ended := func(id string) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: id}}
	}
	const now, before = "containerd://now", "containerd://before"
	tests := []struct {
		desc     string
		status   v1.ContainerStatus
		previous bool
		want     logSource
		err      string
	}{
		{
			desc: "running", status: v1.ContainerStatus{ContainerID: now, RestartCount: 2, State: running},
			want: logSource{"now", 2},
		}, {
			desc: "ended", status: v1.ContainerStatus{ContainerID: now, State: ended(now)},
			want: logSource{"now", 0},
		}, {
			desc:   "waiting to be restarted shows the run that ended",
			status: v1.ContainerStatus{ContainerID: now, RestartCount: 3, State: waiting("CrashLoopBackOff"), LastTerminationState: ended(now)},
			want:   logSource{"now", 3},
		}, {
			desc:   "the next run did not start",
			status: v1.ContainerStatus{ContainerID: before, RestartCount: 1, State: ended(""), LastTerminationState: ended(before)},
			want:   logSource{"before", 1},
		}, {
			desc: "previous while running", previous: true,
			status: v1.ContainerStatus{ContainerID: now, RestartCount: 2, State: running, LastTerminationState: ended(before)},
			want:   logSource{"before", 1},
		}, {
			desc: "previous while waiting is the run that ended", previous: true,
			status: v1.ContainerStatus{ContainerID: now, RestartCount: 2, State: waiting("CrashLoopBackOff"), LastTerminationState: ended(now)},
			want:   logSource{"now", 2},
		}, {
			desc: "no previous run is never the current one", previous: true,
			status: v1.ContainerStatus{ContainerID: now, State: running},
			err:    `previous terminated container "app" in pod "web" not found`,
		}, {
			desc: "a previous run nobody knows the id of", previous: true,
			status: v1.ContainerStatus{ContainerID: now, State: running, LastTerminationState: ended("")},
			err:    `previous terminated container "app" in pod "web" not found`,
		}, {
			desc: "waiting for the first run", status: v1.ContainerStatus{State: waiting("ContainerCreating")},
			err: `container "app" in pod "web" is waiting to start: ContainerCreating`,
		}, {
			desc: "image", status: v1.ContainerStatus{State: waiting("ErrImagePull")},
			err: `container "app" in pod "web" is waiting to start: image can't be pulled`,
		}, {
			desc: "image back-off", status: v1.ContainerStatus{State: waiting("ImagePullBackOff")},
			err: `container "app" in pod "web" is waiting to start: trying and failing to pull image`,
		}, {
			desc: "no state", status: v1.ContainerStatus{},
			err: `container "app" in pod "web" is waiting to start - no logs yet`,
		}, {
			desc: "ended without ever running", status: v1.ContainerStatus{State: ended("")},
			err: `container "app" in pod "web" is terminated`,
		},
	}
	for _, test := range tests {
		t.Run(test.desc, func(t *testing.T) {
			test.status.Name = "app"
			for kind, status := range map[string]v1.PodStatus{
				"container":           {ContainerStatuses: []v1.ContainerStatus{{Name: "other"}, test.status}},
				"init container":      {InitContainerStatuses: []v1.ContainerStatus{test.status}},
				"ephemeral container": {EphemeralContainerStatuses: []v1.ContainerStatus{test.status}},
			} {
				got, err := selectLog("web", &status, "app", test.previous)
				text := ""
				if err != nil {
					text = err.Error()
				}
				if got != test.want || text != test.err {
					t.Errorf("%s: %+v, error %q; want %+v, %q", kind, got, text, test.want, test.err)
				}
			}
		})
	}
	if _, err := selectLog("web", &v1.PodStatus{}, "app", false); err == nil ||
		err.Error() != `container "app" in pod "web" is not available` {
		t.Errorf("without a status: %v", err)
	}
}
