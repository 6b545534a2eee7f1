// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func at(s int64) time.Time { return time.Unix(s, 0).UTC() }

func TestSandboxFacts(t *testing.T) {
	full := &runtimeapi.PodSandboxStatus{
		Id: "s1", Metadata: &runtimeapi.PodSandboxMetadata{Attempt: 2}, State: runtimeapi.PodSandboxState_SANDBOX_READY,
		CreatedAt: 5_000_000_007,
		Network: &runtimeapi.PodSandboxNetworkStatus{
			Ip: "10.0.0.2", AdditionalIps: []*runtimeapi.PodIP{{Ip: "FD00::2"}},
		},
	}
	want := SandboxStatus{
		ID: "s1", Attempt: 2, Ready: true, CreatedAt: time.Unix(5, 7).UTC(), HasNetwork: true, IPs: []string{"10.0.0.2", "fd00::2"},
	}
	if diff := cmp.Diff(want, SandboxFacts(full)); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	host := &runtimeapi.PodSandboxStatus{
		State: runtimeapi.PodSandboxState_SANDBOX_NOTREADY,
		Linux: &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{
			Options: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE},
		}},
	}
	if diff := cmp.Diff(SandboxStatus{HostNetwork: true}, SandboxFacts(host)); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(SandboxStatus{Ready: true}, SandboxFacts(nil)); diff != "" { // READY is the CRI's zero value
		t.Errorf("facts of nothing (-want +got):\n%s", diff)
	}
}

func TestSandboxIPs(t *testing.T) {
	for _, tt := range []struct {
		desc       string
		primary    string
		additional []string
		want       []string
	}{
		{"none", "", []string{"10.0.0.3"}, nil},
		{"one", "10.0.0.2", nil, []string{"10.0.0.2"}},
		{"one that cannot be read spoils all", "10.0.0.2", []string{"x"}, nil},
		{"a primary that cannot be read", "10.0.0", []string{"10.0.0.3"}, nil},
		{"an address with a zone", "fe80::1%eth0", nil, nil},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			n := &runtimeapi.PodSandboxNetworkStatus{Ip: tt.primary}
			for _, ip := range tt.additional {
				n.AdditionalIps = append(n.AdditionalIps, &runtimeapi.PodIP{Ip: ip})
			}
			if got := sandboxIPs(n); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestContainerFacts(t *testing.T) {
	s := &runtimeapi.ContainerStatus{
		Id: "c1", Metadata: &runtimeapi.ContainerMetadata{Name: "main", Attempt: 1}, State: runtimeapi.ContainerState_CONTAINER_EXITED,
		CreatedAt: 1_000_000_000, StartedAt: 2_000_000_000, FinishedAt: 3_000_000_000, ExitCode: 137, Reason: "OOMKilled", Message: "m",
		Image:    &runtimeapi.ImageSpec{Image: "docker.io/library/busybox:1", UserSpecifiedImage: "busybox:1"},
		ImageRef: "docker.io/library/busybox@sha256:1", ImageId: "sha256:2",
		Labels:      map[string]string{LabelContainerName: "main"},
		Annotations: map[string]string{AnnotationHash: "abc", AnnotationRestartCount: "7", AnnotationTerminationMessagePath: "/dev/log/"},
		Mounts: []*runtimeapi.Mount{
			{ContainerPath: "/data", HostPath: "/h/data"}, {ContainerPath: "/dev/log", HostPath: "/h/log"},
		},
		LogPath: "/var/log/pods/x/main/7.log",
		User:    &runtimeapi.ContainerUser{Linux: &runtimeapi.LinuxContainerUser{Uid: 1, Gid: 2, SupplementalGroups: []int64{3}}},
		Resources: &runtimeapi.ContainerResources{Linux: &runtimeapi.LinuxContainerResources{
			CpuShares: 4, CpuPeriod: 5, CpuQuota: 6, MemoryLimitInBytes: 7,
		}},
	}
	want := ContainerStatus{
		ID: "c1", Name: "main", State: ContainerExited, RestartCount: 7, Hash: "abc",
		CreatedAt: at(1), StartedAt: at(2), FinishedAt: at(3), ExitCode: 137, Reason: "OOMKilled", Message: "m",
		Image: "busybox:1", ImageID: "docker.io/library/busybox@sha256:1", ImageRef: "sha256:2", LogPath: "/var/log/pods/x/main/7.log",
		TerminationMessageHostPath: "/h/log", Labels: s.Labels, Annotations: s.Annotations,
		User:      &LinuxUser{UID: 1, GID: 2, SupplementalGroups: []int64{3}},
		Resources: &LinuxResources{CPUShares: 4, CPUPeriod: 5, CPUQuota: 6, MemoryLimitBytes: 7},
	}
	got := ContainerFacts(s)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	s.Labels["later"], s.User.Linux.SupplementalGroups[0] = "x", 9
	if got.Labels["later"] != "" || got.User.SupplementalGroups[0] != 3 {
		t.Error("the facts share memory with the status")
	}
}

func TestContainerFactsOfLittle(t *testing.T) {
	for _, tt := range []struct {
		desc string
		in   *runtimeapi.ContainerStatus
		want ContainerStatus
	}{
		{"times that are not yet", &runtimeapi.ContainerStatus{State: runtimeapi.ContainerState_CONTAINER_CREATED}, ContainerStatus{State: ContainerCreated}},
		{"a running one", &runtimeapi.ContainerStatus{State: runtimeapi.ContainerState_CONTAINER_RUNNING}, ContainerStatus{State: ContainerRunning}},
		{"a lost one", &runtimeapi.ContainerStatus{State: runtimeapi.ContainerState_CONTAINER_UNKNOWN}, ContainerStatus{State: ContainerUnknown}},
		{"a state from the future", &runtimeapi.ContainerStatus{State: 77}, ContainerStatus{State: ContainerUnknown}},
		{
			"no image as the user named it", &runtimeapi.ContainerStatus{Image: &runtimeapi.ImageSpec{Image: "i"}, ImageId: "sha256:2"},
			ContainerStatus{State: ContainerCreated, Image: "i", ImageID: "sha256:2", ImageRef: "sha256:2"},
		},
		{
			"no restart count", &runtimeapi.ContainerStatus{Metadata: &runtimeapi.ContainerMetadata{Attempt: 4}},
			ContainerStatus{State: ContainerCreated, RestartCount: 4},
		},
		{
			"a broken restart count", &runtimeapi.ContainerStatus{
				Metadata: &runtimeapi.ContainerMetadata{Attempt: 4}, Annotations: map[string]string{AnnotationRestartCount: "-1"},
			},
			ContainerStatus{State: ContainerCreated, RestartCount: 4, Annotations: map[string]string{AnnotationRestartCount: "-1"}},
		},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, ContainerFacts(tt.in)); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAssembleSortsNewestFirst(t *testing.T) {
	sandboxes := []SandboxStatus{
		{ID: "old", Attempt: 0, CreatedAt: at(9)}, {ID: "a", Attempt: 2, CreatedAt: at(2)}, {ID: "b", Attempt: 2, CreatedAt: at(2), Ready: true, IPs: []string{"10.0.0.1"}},
		{ID: "mid", Attempt: 1, CreatedAt: at(1)},
	}
	containers := []ContainerStatus{
		{ID: "c1", Name: "x", CreatedAt: at(1)}, {ID: "c3", Name: "x", CreatedAt: at(3), RestartCount: 2}, {ID: "c2", Name: "x", CreatedAt: at(2), RestartCount: 1},
	}
	got := AssemblePodStatus("u", "n", "ns", sandboxes, containers, at(100))
	var order []string
	for _, s := range got.Sandboxes {
		order = append(order, s.ID)
	}
	for _, c := range got.Containers {
		order = append(order, c.ID)
	}
	if want := []string{"b", "a", "mid", "old", "c3", "c2", "c1"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	if !slices.Equal(got.IPs, []string{"10.0.0.1"}) || !got.ObservedAt.Equal(at(100)) {
		t.Errorf("IPs %v observed at %s", got.IPs, got.ObservedAt)
	}
}

func TestAssembleTakesNoIPsFromAnOlderSandbox(t *testing.T) {
	got := AssemblePodStatus("u", "n", "ns", []SandboxStatus{
		{ID: "old", Attempt: 0, Ready: true, IPs: []string{"10.0.0.1"}}, {ID: "new", Attempt: 1, IPs: []string{"10.0.0.2"}},
	}, nil, at(1))
	if len(got.IPs) != 0 {
		t.Errorf("IPs %v, want none while the newest sandbox is not ready", got.IPs)
	}
}

func TestNewestContainerIsTheOneWithTheHighestCountWhateverTheClockSaid(t *testing.T) {
	got := AssemblePodStatus("u", "", "", nil, []ContainerStatus{
		{ID: "c0", Name: "x", RestartCount: 0, CreatedAt: at(100)},
		{ID: "c1", Name: "x", RestartCount: 1, CreatedAt: at(10)}, // the clock jumped back
		{ID: "c2", Name: "x", RestartCount: 2, CreatedAt: at(20)},
	}, at(1))
	var order []string
	for _, c := range got.Containers {
		order = append(order, c.ID)
	}
	if want := []string{"c2", "c1", "c0"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
}

func TestContainerWithoutCreationTimeKeepsItsPlace(t *testing.T) {
	containers := func() []ContainerStatus {
		return []ContainerStatus{
			{ID: "c0", Name: "x", RestartCount: 0, CreatedAt: at(10)},
			{ID: "c1", Name: "x", RestartCount: 1, State: ContainerUnknown},
			{ID: "y", Name: "y", CreatedAt: at(20)},
		}
	}
	lost := AssemblePodStatus("u", "", "", nil, containers(), at(1))
	if got := lost.Newest("x").ID; got != "c1" {
		t.Errorf("newest %s, want the lost container, which was the last", got)
	}
	replaced := AssemblePodStatus("u", "", "", nil,
		append(containers(), ContainerStatus{ID: "c2", Name: "x", RestartCount: 2, CreatedAt: at(30)}), at(1))
	if got := replaced.Newest("x").ID; got != "c2" {
		t.Errorf("newest %s, want the replacement of the lost container", got)
	}
}

func TestContainersOfHooksArePutAside(t *testing.T) {
	hook := ContainerFacts(&runtimeapi.ContainerStatus{
		Id: "h", Metadata: &runtimeapi.ContainerMetadata{Name: ExitHookName("x")}, CreatedAt: 9,
		Labels: map[string]string{LabelContainerKind: KindExitHook}, Annotations: map[string]string{AnnotationHookOf: "x"},
	})
	got := AssemblePodStatus("u", "n", "ns", nil, []ContainerStatus{{ID: "c", Name: "x", CreatedAt: at(1)}, hook, {ID: "d", Name: "y", CreatedAt: at(2)}}, at(3))
	var ids []string
	for _, c := range got.Containers {
		ids = append(ids, c.ID)
	}
	if !slices.Equal(ids, []string{"d", "c"}) || len(got.ExitHooks) != 1 {
		t.Errorf("containers %v, hooks %+v", ids, got.ExitHooks)
	}
	if found := got.ExitHook("x"); found == nil || found.ID != "h" || got.ExitHook("y") != nil || got.Newest(ExitHookName("x")) != nil {
		t.Errorf("the hook of x is %+v", found)
	}
}

func TestOnlyAnEndThatWasSeenRulesOutThatAContainerRuns(t *testing.T) {
	for state, want := range map[ContainerState]bool{
		ContainerUnknown: true, ContainerCreated: false, ContainerRunning: true, ContainerExited: false,
	} {
		if got := (&ContainerStatus{State: state}).MayRun(); got != want {
			t.Errorf("MayRun of a container in state %s = %t, want %t", state, got, want)
		}
	}
}
