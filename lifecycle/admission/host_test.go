// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/host"
)

func TestAppArmorNeedsAHostThatHasIt(t *testing.T) {
	const none = "Cannot enforce AppArmor: AppArmor is not enabled on the host"
	for _, tc := range []struct {
		name, pod    string
		with, absent string
	}{
		{name: "no profile", pod: `spec: {containers: [{name: a}]}`},
		{name: "unconfined", pod: `spec: {containers: [{name: a, securityContext: {appArmorProfile: {type: Unconfined}}}]}`},
		{name: "the pod's", pod: `spec: {securityContext: {appArmorProfile: {type: RuntimeDefault}}, containers: [{name: a}]}`, absent: none},
		{name: "an init container's", pod: `spec: {initContainers: [{name: i, securityContext: {appArmorProfile: {type: Localhost, localhostProfile: p}}}]}`, absent: none},
		{name: "an ephemeral container's", pod: `spec: {ephemeralContainers: [{name: e, securityContext: {appArmorProfile: {type: RuntimeDefault}}}]}`, absent: none},
		{name: "an annotation's", pod: `{metadata: {annotations: {container.apparmor.security.beta.kubernetes.io/a: localhost/p}}, spec: {containers: [{name: a}]}}`, absent: none},
		{name: "an unconfined annotation's", pod: `{metadata: {annotations: {container.apparmor.security.beta.kubernetes.io/a: unconfined}}, spec: {containers: [{name: a}]}}`},
		{
			name: "one without a name", pod: `spec: {containers: [{name: a, securityContext: {appArmorProfile: {type: Localhost, localhostProfile: " "}}}]}`,
			absent: none, with: `Cannot enforce AppArmor: invalid empty AppArmor profile name: " "`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for has, want := range map[bool]string{true: tc.with, false: tc.absent} {
				r := Check(parse(t, tc.pod), Facts{Host: &host.Facts{AppArmor: has}})
				if r == nil {
					r = &Rejection{}
				}
				if r.Message != want || (want != "") != (r.Reason == "AppArmor") {
					t.Errorf("on a host that has it (%t): %s: %s, want %s", has, r.Reason, r.Message, want)
				}
			}
			if r := Check(parse(t, tc.pod), Facts{}); r != nil {
				t.Errorf("on a host that is not known yet: %+v", *r)
			}
		})
	}
}

func TestTwoPodsCannotHaveOnePortOfTheHost(t *testing.T) {
	pod := func(uid, ports string) *v1.Pod {
		p := parse(t, "spec: "+ports)
		p.UID = types.UID(uid)
		return p
	}
	const taken = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
	for _, tc := range []struct {
		name, has, wants string
		clash            bool
	}{
		{name: "the same", has: `{containers: [{name: a, ports: [{hostPort: 80}]}]}`, wants: `{containers: [{name: a, ports: [{hostPort: 80, protocol: TCP}]}]}`, clash: true},
		{name: "another port", has: `{containers: [{name: a, ports: [{hostPort: 80}]}]}`, wants: `{containers: [{name: a, ports: [{hostPort: 81}]}]}`},
		{name: "another protocol", has: `{containers: [{name: a, ports: [{hostPort: 80}]}]}`, wants: `{containers: [{name: a, ports: [{hostPort: 80, protocol: UDP}]}]}`},
		{name: "another address", has: `{containers: [{name: a, ports: [{hostPort: 80, hostIP: 192.0.2.1}]}]}`, wants: `{containers: [{name: a, ports: [{hostPort: 80, hostIP: 192.0.2.2}]}]}`},
		{name: "one address and all", has: `{containers: [{name: a, ports: [{hostPort: 80, hostIP: 192.0.2.1}]}]}`, wants: `{containers: [{name: a, ports: [{hostPort: 80}]}]}`, clash: true},
		{name: "all and one address", has: `{containers: [{name: a, ports: [{hostPort: 80, hostIP: 0.0.0.0}]}]}`, wants: `{containers: [{name: a, ports: [{hostPort: 80, hostIP: 192.0.2.1}]}]}`, clash: true},
		{name: "a sidecar's", has: `{initContainers: [{name: s, restartPolicy: Always, ports: [{hostPort: 80}]}]}`, wants: `{containers: [{name: a, ports: [{hostPort: 80}]}]}`, clash: true},
		{name: "an init container's", has: `{initContainers: [{name: s, ports: [{hostPort: 80}]}]}`, wants: `{containers: [{name: a, ports: [{hostPort: 80}]}]}`},
		{name: "none of the host's", has: `{containers: [{name: a, ports: [{containerPort: 80}]}]}`, wants: `{containers: [{name: a, ports: [{containerPort: 80}]}]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wants := pod("new", tc.wants)
			for _, node := range []*v1.Node{nil, {}} {
				r := Check(wants, Facts{Node: node, ActivePods: []*v1.Pod{pod("old", tc.has), wants}})
				if r == nil {
					r = &Rejection{}
				}
				if tc.clash != (r.Reason == "NodePorts" && r.Message == taken) || !tc.clash && r.Reason != "" {
					t.Errorf("%s: %s, want a clash: %t", r.Reason, r.Message, tc.clash)
				}
			}
		})
	}
}

func TestStrictGroupsNeedARuntimeThatKnowsThem(t *testing.T) {
	strict := parse(t, `spec: {securityContext: {supplementalGroupsPolicy: Strict}, containers: [{name: a}]}`)
	knows := &v1.Node{Status: v1.NodeStatus{Features: &v1.NodeFeatures{SupplementalGroupsPolicy: new(true)}}}
	if r := Check(strict, Facts{Node: knows}); r != nil {
		t.Errorf("refused: %+v", *r)
	}
	for _, node := range []*v1.Node{{}, {Status: v1.NodeStatus{Features: &v1.NodeFeatures{SupplementalGroupsPolicy: new(false)}}}} {
		r := Check(strict, Facts{Node: node})
		if r == nil || r.Reason != "SupplementalGroupsPolicyNotSupported" || r.Message != "SupplementalGroupsPolicy=Strict is not supported in this node" {
			t.Errorf("got %+v", r)
		}
		merge := parse(t, `spec: {securityContext: {supplementalGroupsPolicy: Merge}, containers: [{name: a}]}`)
		if r := Check(merge, Facts{Node: node}); r != nil {
			t.Errorf("Merge is refused: %+v", *r)
		}
	}
}
