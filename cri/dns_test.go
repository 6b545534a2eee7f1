// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestParseResolvConf(t *testing.T) {
	for _, tt := range []struct {
		desc, content string
		want          *runtimeapi.DNSConfig
	}{
		{"nothing", "", &runtimeapi.DNSConfig{}},
		{
			"comments, blanks, words that are not known",
			"# nameserver 1.1.1.1\n; nameserver 1.1.1.2\n\n\tnameserver\t10.0.0.1 # note\r\nsortlist 10.0.0.0\nnameserver\n",
			&runtimeapi.DNSConfig{Servers: []string{"10.0.0.1"}},
		},
		{"servers add up", "nameserver 10.0.0.1\nnameserver ::1", &runtimeapi.DNSConfig{Servers: []string{"10.0.0.1", "::1"}}},
		{"the last search wins", "search a.example b.example\nsearch c.example. .\n", &runtimeapi.DNSConfig{Searches: []string{"c.example"}}},
		{"an empty search clears", "search a.example\nsearch\n", &runtimeapi.DNSConfig{}},
		{"options merge by name", "options ndots:2 rotate\noptions ndots:3", &runtimeapi.DNSConfig{Options: []string{"ndots:3", "rotate"}}},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, parseResolvConf(tt.content), protocmp.Transform()); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDNSConfigByPolicy(t *testing.T) {
	host := "nameserver 192.0.2.1\nsearch corp.example cluster.local\noptions rotate"
	fromHost := &runtimeapi.DNSConfig{
		Servers: []string{"192.0.2.1"}, Searches: []string{"corp.example", "cluster.local"}, Options: []string{"rotate"},
	}
	fromCluster := &runtimeapi.DNSConfig{
		Servers:  []string{"10.96.0.10", "10.96.0.11"},
		Searches: []string{"ns.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp.example"},
		Options:  []string{"ndots:5"},
	}
	extra := &v1.PodDNSConfig{
		Nameservers: []string{"192.0.2.9", "192.0.2.1"}, Searches: []string{"x.example", "corp.example"},
		Options: []v1.PodDNSConfigOption{{Name: "rotate", Value: new("")}, {Name: "ndots", Value: new("2")}, {Name: "edns0"}},
	}
	for _, tt := range []struct {
		desc      string
		spec      v1.PodSpec
		noCluster bool
		noDomain  bool
		want      *runtimeapi.DNSConfig
		problem   string
	}{
		{desc: "ClusterFirst", spec: v1.PodSpec{DNSPolicy: v1.DNSClusterFirst}, want: fromCluster},
		{desc: "a policy that is not known", spec: v1.PodSpec{DNSPolicy: "Later"}, want: fromCluster},
		{desc: "ClusterFirst on the host's network", spec: v1.PodSpec{DNSPolicy: v1.DNSClusterFirst, HostNetwork: true}, want: fromHost},
		{desc: "ClusterFirstWithHostNet", spec: v1.PodSpec{DNSPolicy: v1.DNSClusterFirstWithHostNet, HostNetwork: true}, want: fromCluster},
		{desc: "Default", spec: v1.PodSpec{DNSPolicy: v1.DNSDefault}, want: fromHost},
		{
			desc: "ClusterFirst without cluster DNS", spec: v1.PodSpec{DNSPolicy: v1.DNSClusterFirst}, noCluster: true, want: fromHost,
			problem: "MissingClusterDNS",
		},
		{
			desc: "ClusterFirst without a domain", spec: v1.PodSpec{DNSPolicy: v1.DNSClusterFirst}, noDomain: true,
			want: &runtimeapi.DNSConfig{Servers: fromCluster.Servers, Searches: fromHost.Searches, Options: fromCluster.Options},
		},
		{
			desc: "None", spec: v1.PodSpec{DNSPolicy: v1.DNSNone, DNSConfig: extra},
			want: &runtimeapi.DNSConfig{
				Servers: []string{"192.0.2.9", "192.0.2.1"}, Searches: []string{"x.example", "corp.example"},
				Options: []string{"rotate", "ndots:2", "edns0"},
			},
		},
		{
			desc: "Default and more", spec: v1.PodSpec{DNSPolicy: v1.DNSDefault, DNSConfig: extra},
			want: &runtimeapi.DNSConfig{
				Servers: []string{"192.0.2.1", "192.0.2.9"}, Searches: []string{"corp.example", "cluster.local", "x.example"},
				Options: []string{"rotate", "ndots:2", "edns0"},
			},
		},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			in := DNSInput{
				Pod:        &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"}, Spec: tt.spec},
				ClusterDNS: []string{"10.96.0.10", "10.96.0.11"}, ClusterDomain: "cluster.local", ResolvConf: host,
			}
			if tt.noCluster {
				in.ClusterDNS = nil
			}
			if tt.noDomain {
				in.ClusterDomain = ""
			}
			got, problems := DNSConfig(in)
			if diff := cmp.Diff(tt.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}
			reason := ""
			for _, p := range problems {
				reason += p.Reason
			}
			if reason != tt.problem {
				t.Errorf("problems %v, want %q", problems, tt.problem)
			}
		})
	}
}

func TestDNSConfigIsCutToItsLimits(t *testing.T) {
	pod := func(c v1.PodDNSConfig) DNSInput {
		return DNSInput{Pod: &v1.Pod{Spec: v1.PodSpec{DNSPolicy: v1.DNSNone, DNSConfig: &c}}}
	}
	many := func(n, length int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf("%0*d", length, i))
		}
		return out
	}
	for _, tt := range []struct {
		desc     string
		in       v1.PodDNSConfig
		servers  int
		searches int
		problem  string
	}{
		{desc: "what fits", in: v1.PodDNSConfig{Nameservers: many(3, 4), Searches: many(32, 63)}, servers: 3, searches: 32},
		{
			desc: "too many servers", in: v1.PodDNSConfig{Nameservers: many(4, 1)}, servers: 3,
			problem: "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: 0 1 2",
		},
		{
			desc: "too many searches", in: v1.PodDNSConfig{Searches: many(33, 2)}, searches: 32,
			problem: "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: " + strings.Join(many(32, 2), " "),
		},
		{
			desc: "too long a search line", in: v1.PodDNSConfig{Searches: many(20, 127)}, searches: 16,
			problem: "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: " + strings.Join(many(16, 127), " "),
		},
		{
			desc: "one search that is too long", in: v1.PodDNSConfig{Searches: []string{"a", strings.Repeat("b", 254), "c"}}, searches: 2,
			problem: "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: a c",
		},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			got, problems := DNSConfig(pod(tt.in))
			if len(got.Servers) != tt.servers || len(got.Searches) != tt.searches {
				t.Errorf("%d servers, %d searches, want %d, %d", len(got.Servers), len(got.Searches), tt.servers, tt.searches)
			}
			var want []Problem
			if tt.problem != "" {
				want = []Problem{{Reason: "DNSConfigForming", Message: tt.problem}}
			}
			if diff := cmp.Diff(want, problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzDNSConfig(f *testing.F) {
	f.Add("nameserver 10.0.0.1\nsearch a b c\noptions ndots:2", "Default")
	f.Add("search "+strings.Repeat("x.example ", 40), "ClusterFirst")
	f.Add("options : :: a:b:c\nsearch . .. ...", "Default")
	f.Fuzz(func(t *testing.T, content, policy string) {
		pod := &v1.Pod{Spec: v1.PodSpec{DNSPolicy: v1.DNSPolicy(policy)}}
		got, _ := DNSConfig(DNSInput{Pod: pod, ClusterDNS: []string{"10.96.0.10"}, ClusterDomain: "cluster.local", ResolvConf: content})
		if len(got.Servers) > maxNameservers || len(got.Searches) > maxSearches || len(strings.Join(got.Searches, " ")) > maxSearchLength {
			t.Fatalf("beyond the limits: %v", got)
		}
		for _, field := range append(append(got.Servers, got.Searches...), got.Options...) {
			if field == "" || strings.ContainsAny(field, " \t\n") {
				t.Fatalf("field %q does not fit in a resolv.conf", field)
			}
		}
	})
}

func TestResolvConfOfWhichPodsGetOnlyAPart(t *testing.T) {
	domains := func(n, length int) string {
		out := make([]string, n)
		for i := range out {
			out[i] = strings.Repeat("a", length)
		}
		return "nameserver 192.0.2.1\nsearch " + strings.Join(out, " ") + "\n"
	}
	for name, tt := range map[string]struct{ content, domain, want string }{
		"none":                        {"nameserver 192.0.2.1\n", "cluster.local", ""},
		"as many as fit":              {domains(29, 3), "cluster.local", ""},
		"more than fit":               {domains(30, 3), "cluster.local", "Resolv.conf file '/r' contains search line consisting of more than 29 domains!"},
		"without those of a cluster":  {domains(32, 3), "", ""},
		"more than fit without those": {domains(33, 3), "", "Resolv.conf file '/r' contains search line consisting of more than 32 domains!"},
		"too long a domain":           {domains(1, 254), "", `Resolv.conf file "/r" contains a search path which length is more than allowed 253 chars!`},
		"as long as fits":             {domains(9, 226), "", ""},
		"too long a line":             {domains(9, 227), "", "Resolv.conf file '/r' contains search line which length is more than allowed 2048 chars!"},
	} {
		if got := ResolvConfProblem("/r", tt.content, tt.domain); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
