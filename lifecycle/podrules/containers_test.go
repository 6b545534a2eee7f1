// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podrules

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/cri"
)

func podOfAllKinds() *v1.Pod {
	return &v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{{Name: "setup"}, {Name: "proxy", RestartPolicy: new(v1.ContainerRestartPolicyAlways)}},
		Containers:     []v1.Container{{Name: "web"}, {Name: "log"}},
		EphemeralContainers: []v1.EphemeralContainer{
			{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug", Image: "tools"}},
		},
	}}
}

func TestContainersAreWalkedInTheOrderOfTheSpec(t *testing.T) {
	type seen struct {
		Name string
		Kind ContainerKind
	}
	var got []seen
	pod := podOfAllKinds()
	for kind, c := range Containers(pod) {
		got = append(got, seen{c.Name, kind})
	}
	want := []seen{
		{"setup", InitContainer}, {"proxy", Sidecar}, {"web", RegularContainer}, {"log", RegularContainer}, {"debug", EphemeralContainer},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, w := range want {
		c, kind := Find(pod, w.Name)
		if c == nil || c.Name != w.Name || kind != w.Kind {
			t.Errorf("Find(%q) = %v, %v", w.Name, c, kind)
		}
		n := 0
		for _, c := range Containers(pod) {
			n++
			if c.Name == w.Name {
				break
			}
		}
		if n > len(want) {
			t.Errorf("the walk goes on after %q", w.Name)
		}
	}
	if c, kind := Find(pod, "other"); c != nil || kind != NoContainer {
		t.Errorf("Find of an unknown name: %v, %v", c, kind)
	}
	if c, _ := Find(pod, "debug"); c.Image != "tools" {
		t.Error("the ephemeral container lost its image")
	}
}

func TestRestartAllTriggered(t *testing.T) {
	const in = v1.ContainerRestartRuleOnExitCodesOpIn
	rule := func(action v1.ContainerRestartRuleAction, codes ...int32) v1.ContainerRestartRule {
		return v1.ContainerRestartRule{Action: action, ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: in, Values: codes}}
	}
	all := rule(v1.ContainerRestartRuleActionRestartAllContainers, 42)
	ended := func(name, sandbox string, code int32) cri.ContainerStatus {
		return cri.ContainerStatus{Name: name, SandboxID: sandbox, State: cri.ContainerExited, ExitCode: code}
	}
	for _, tt := range []struct {
		desc    string
		of      string // the container that has the rules
		rules   []v1.ContainerRestartRule
		records []cri.ContainerStatus
		want    bool
	}{
		{desc: "no rule", of: "web", records: []cri.ContainerStatus{ended("web", "s1", 42)}},
		{desc: "match", of: "web", rules: []v1.ContainerRestartRule{all}, records: []cri.ContainerStatus{ended("web", "s1", 42)}, want: true},
		{desc: "match of a sidecar", of: "proxy", rules: []v1.ContainerRestartRule{all}, records: []cri.ContainerStatus{ended("proxy", "s1", 42)}, want: true},
		{desc: "match of an init container", of: "setup", rules: []v1.ContainerRestartRule{all}, records: []cri.ContainerStatus{ended("setup", "s1", 42)}, want: true},
		{desc: "another code", of: "web", rules: []v1.ContainerRestartRule{all}, records: []cri.ContainerStatus{ended("web", "s1", 41)}},
		{desc: "another container", of: "web", rules: []v1.ContainerRestartRule{all}, records: []cri.ContainerStatus{ended("log", "s1", 42)}},
		{
			desc: "an earlier rule matches", of: "web",
			rules:   []v1.ContainerRestartRule{rule(v1.ContainerRestartRuleActionRestart, 42), all},
			records: []cri.ContainerStatus{ended("web", "s1", 42)},
		},
		{
			desc: "a newer record runs", of: "web", rules: []v1.ContainerRestartRule{all},
			records: []cri.ContainerStatus{{Name: "web", SandboxID: "s1", State: cri.ContainerRunning}, ended("web", "s1", 42)},
		},
		{desc: "in an older sandbox", of: "web", rules: []v1.ContainerRestartRule{all}, records: []cri.ContainerStatus{ended("web", "s0", 42)}},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			pod := podOfAllKinds()
			c, _ := Find(pod, tt.of)
			c.RestartPolicyRules = tt.rules
			if c.RestartPolicy == nil {
				c.RestartPolicy = new(v1.ContainerRestartPolicyNever)
			}
			if got := HasRestartAllRule(pod); got != (len(tt.rules) > 0) {
				t.Errorf("HasRestartAllRule() = %v", got)
			}
			status := &cri.PodStatus{Sandboxes: []cri.SandboxStatus{{ID: "s1", Ready: true}}, Containers: tt.records}
			if got := RestartAllTriggered(pod, status); got != tt.want {
				t.Errorf("RestartAllTriggered() = %v, want %v", got, tt.want)
			}
			status.Sandboxes[0].Ready = false
			if RestartAllTriggered(pod, status) || RestartAllTriggered(pod, nil) {
				t.Error("triggered without a ready sandbox")
			}
		})
	}
}

func TestInitRestartable(t *testing.T) {
	for _, tt := range []struct {
		desc      string
		pod       v1.RestartPolicy
		container v1.ContainerRestartPolicy
		record    cri.ContainerStatus
		want      bool
	}{
		{desc: "pod Always", pod: v1.RestartPolicyAlways, record: cri.ContainerStatus{ExitCode: 1}, want: true},
		{desc: "pod OnFailure, killed for memory with code 0", pod: v1.RestartPolicyOnFailure, record: cri.ContainerStatus{Reason: reasonOOMKilled}, want: true},
		{desc: "pod Never", pod: v1.RestartPolicyNever, record: cri.ContainerStatus{ExitCode: 1}},
		{desc: "container OnFailure wins", pod: v1.RestartPolicyNever, container: v1.ContainerRestartPolicyOnFailure, record: cri.ContainerStatus{ExitCode: 1}, want: true},
		{desc: "container Never wins", pod: v1.RestartPolicyAlways, container: v1.ContainerRestartPolicyNever, record: cri.ContainerStatus{ExitCode: 1}},
		{desc: "a rule wins over container Never", container: v1.ContainerRestartPolicyNever, record: cri.ContainerStatus{ExitCode: 42}, want: true},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			c := &v1.Container{}
			if tt.container != "" {
				c.RestartPolicy = &tt.container
				c.RestartPolicyRules = []v1.ContainerRestartRule{{
					Action: v1.ContainerRestartRuleActionRestart,
					ExitCodes: &v1.ContainerRestartRuleOnExitCodes{
						Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42},
					},
				}}
			}
			if got := InitRestartable(&v1.Pod{Spec: v1.PodSpec{RestartPolicy: tt.pod}}, c, &tt.record); got != tt.want {
				t.Errorf("InitRestartable() = %v, want %v", got, tt.want)
			}
		})
	}
}
