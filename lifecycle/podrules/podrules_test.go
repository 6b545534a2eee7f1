// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podrules

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tombolo-dev/tombolo/cri"
)

func TestRestartable(t *testing.T) {
	rule := func(action v1.ContainerRestartRuleAction, op v1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) v1.ContainerRestartRule {
		return v1.ContainerRestartRule{
			Action:    action,
			ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: op, Values: codes},
		}
	}
	const in, notIn = v1.ContainerRestartRuleOnExitCodesOpIn, v1.ContainerRestartRuleOnExitCodesOpNotIn
	for _, tt := range []struct {
		desc      string
		pod       v1.RestartPolicy
		container v1.ContainerRestartPolicy
		rules     []v1.ContainerRestartRule
		code      int32
		want      bool
	}{
		{desc: "Always restarts success", pod: v1.RestartPolicyAlways, want: true},
		{desc: "no policy means Always", want: true},
		{desc: "OnFailure leaves success", pod: v1.RestartPolicyOnFailure},
		{desc: "OnFailure restarts failure", pod: v1.RestartPolicyOnFailure, code: 3, want: true},
		{desc: "Never leaves failure", pod: v1.RestartPolicyNever, code: 3},
		{desc: "the container's policy wins over the pod's", pod: v1.RestartPolicyNever, container: v1.ContainerRestartPolicyAlways, want: true},
		{desc: "container Never wins over pod Always", pod: v1.RestartPolicyAlways, container: v1.ContainerRestartPolicyNever, code: 1},
		{desc: "container OnFailure leaves success", pod: v1.RestartPolicyAlways, container: v1.ContainerRestartPolicyOnFailure},
		{
			desc: "a matching rule wins over the container's policy", pod: v1.RestartPolicyNever, container: v1.ContainerRestartPolicyNever,
			rules: []v1.ContainerRestartRule{rule(v1.ContainerRestartRuleActionRestart, in, 42)}, code: 42, want: true,
		},
		{
			desc: "without a match the container's policy decides", pod: v1.RestartPolicyAlways, container: v1.ContainerRestartPolicyNever,
			rules: []v1.ContainerRestartRule{rule(v1.ContainerRestartRuleActionRestart, in, 42)}, code: 41,
		},
		{
			desc: "NotIn matches codes that are not listed", container: v1.ContainerRestartPolicyNever,
			rules: []v1.ContainerRestartRule{rule(v1.ContainerRestartRuleActionRestartAllContainers, notIn, 0)}, code: 41, want: true,
		},
		{
			desc: "rules without a container policy are not asked", pod: v1.RestartPolicyNever,
			rules: []v1.ContainerRestartRule{rule(v1.ContainerRestartRuleActionRestart, in, 42)}, code: 42,
		},
		{
			desc: "a rule without exit codes matches nothing", container: v1.ContainerRestartPolicyNever,
			rules: []v1.ContainerRestartRule{{Action: v1.ContainerRestartRuleActionRestart}},
		},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			pod := &v1.Pod{Spec: v1.PodSpec{RestartPolicy: tt.pod}}
			c := &v1.Container{RestartPolicyRules: tt.rules}
			if tt.container != "" {
				c.RestartPolicy = &tt.container
			}
			if got := Restartable(pod, c, tt.code); got != tt.want {
				t.Errorf("Restartable() = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestShouldRestart(t *testing.T) {
	never := &v1.Pod{Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyNever}}
	deleted := &v1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}}
	for _, tt := range []struct {
		desc   string
		pod    *v1.Pod
		newest *cri.ContainerStatus
		want   bool
	}{
		{desc: "a container without a record starts", pod: never, want: true},
		{desc: "a running one does not", pod: never, newest: &cri.ContainerStatus{State: cri.ContainerRunning}},
		{desc: "a created one starts", pod: never, newest: &cri.ContainerStatus{State: cri.ContainerCreated}, want: true},
		{desc: "an unknown one starts", pod: never, newest: &cri.ContainerStatus{State: cri.ContainerUnknown}, want: true},
		{desc: "an ended one as the policy says", pod: never, newest: &cri.ContainerStatus{State: cri.ContainerExited, ExitCode: 1}},
		{desc: "nothing starts in a pod that is being deleted", pod: deleted},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			if got := ShouldRestart(tt.pod, &v1.Container{}, tt.newest); got != tt.want {
				t.Errorf("ShouldRestart() = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestInitFailed(t *testing.T) {
	for _, tt := range []struct {
		desc   string
		record cri.ContainerStatus
		want   bool
	}{
		{desc: "exit 0", record: cri.ContainerStatus{Reason: "Completed"}},
		{desc: "another code", record: cri.ContainerStatus{ExitCode: 1, Reason: "Error"}, want: true},
		{desc: "exit 0 of a container killed for memory", record: cri.ContainerStatus{Reason: "OOMKilled"}, want: true},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			if got := InitFailed(&tt.record); got != tt.want {
				t.Errorf("InitFailed() = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestIsSidecar(t *testing.T) {
	if IsSidecar(&v1.Container{}) || IsSidecar(&v1.Container{RestartPolicy: new(v1.ContainerRestartPolicyOnFailure)}) {
		t.Error("a regular init container is taken for a sidecar")
	}
	if !IsSidecar(&v1.Container{RestartPolicy: new(v1.ContainerRestartPolicyAlways)}) {
		t.Error("a sidecar is not recognised")
	}
}

func TestSandboxNeedOf(t *testing.T) {
	ready := cri.SandboxStatus{ID: "s1", Attempt: 3, Ready: true, HasNetwork: true, IPs: []string{"10.0.0.1"}}
	with := func(change func(*cri.SandboxStatus)) []cri.SandboxStatus {
		s := ready
		change(&s)
		return []cri.SandboxStatus{s}
	}
	for _, tt := range []struct {
		desc        string
		hostNetwork bool
		sandboxes   []cri.SandboxStatus
		want        SandboxNeed
	}{
		{desc: "none", want: SandboxNeed{New: true, Message: "no pod sandbox exists"}},
		{desc: "a good one", sandboxes: []cri.SandboxStatus{ready}, want: SandboxNeed{Attempt: 3, SandboxID: "s1"}},
		{
			desc: "two ready", sandboxes: []cri.SandboxStatus{ready, ready},
			want: SandboxNeed{New: true, Message: "multiple pod sandboxes are ready and need to be reconciled", Attempt: 4, SandboxID: "s1"},
		},
		{
			desc: "the newest is not ready", sandboxes: append(with(func(s *cri.SandboxStatus) { s.Ready = false }), ready),
			want: SandboxNeed{New: true, Message: "pod sandbox is not ready", Attempt: 4, SandboxID: "s1"},
		},
		{
			desc: "another network mode", hostNetwork: true, sandboxes: []cri.SandboxStatus{ready},
			want: SandboxNeed{New: true, Message: "network namespace mode changed and sandbox needs to be recreated", Attempt: 4, SandboxID: "s1"},
		},
		{
			desc: "no address", sandboxes: with(func(s *cri.SandboxStatus) { s.IPs = nil }),
			want: SandboxNeed{New: true, Message: "pod sandbox has no IP address", Attempt: 4, SandboxID: "s1"},
		},
		{
			desc: "no network block", sandboxes: with(func(s *cri.SandboxStatus) { s.IPs, s.HasNetwork = nil, false }),
			want: SandboxNeed{Attempt: 3, SandboxID: "s1"},
		},
		{
			desc: "no address on the host's network", hostNetwork: true,
			sandboxes: with(func(s *cri.SandboxStatus) { s.IPs, s.HostNetwork = nil, true }),
			want:      SandboxNeed{Attempt: 3, SandboxID: "s1"},
		},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			pod := &v1.Pod{Spec: v1.PodSpec{HostNetwork: tt.hostNetwork}}
			if d := cmp.Diff(tt.want, SandboxNeedOf(pod, &cri.PodStatus{Sandboxes: tt.sandboxes})); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
	if !SandboxNeedOf(&v1.Pod{}, nil).New {
		t.Error("a pod without a status needs no sandbox")
	}
}

func TestPastInitLooksOnlyAtTheReadySandbox(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{{Name: "init"}},
		Containers:     []v1.Container{{Name: "main"}},
	}}
	record := func(name, sandbox string) cri.ContainerStatus {
		return cri.ContainerStatus{Name: name, SandboxID: sandbox, State: cri.ContainerExited}
	}
	ready := []cri.SandboxStatus{{ID: "new", Ready: true}, {ID: "old"}}
	for _, tt := range []struct {
		desc        string
		status      *cri.PodStatus
		past, never bool
	}{
		{desc: "no status", never: true},
		{desc: "only an init container", status: &cri.PodStatus{Sandboxes: ready, Containers: []cri.ContainerStatus{record("init", "new")}}, never: true},
		{desc: "main in the ready sandbox", status: &cri.PodStatus{Sandboxes: ready, Containers: []cri.ContainerStatus{record("main", "new")}}, past: true},
		{desc: "main in an older sandbox", status: &cri.PodStatus{Sandboxes: ready, Containers: []cri.ContainerStatus{record("main", "old")}}},
		{desc: "no ready sandbox", status: &cri.PodStatus{Containers: []cri.ContainerStatus{record("main", "old")}}},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			if got := PastInit(pod, tt.status); got != tt.past {
				t.Errorf("PastInit() = %v, want %v", got, tt.past)
			}
			if got := RegularEverCreated(pod, tt.status); got != !tt.never {
				t.Errorf("RegularEverCreated() = %v, want %v", got, !tt.never)
			}
		})
	}
}
