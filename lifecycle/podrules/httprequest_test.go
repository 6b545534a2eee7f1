// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podrules

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tombolo-dev/tombolo/host"
)

var (
	httpPod       = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	httpContainer = &v1.Container{Name: "main", Ports: []v1.ContainerPort{{Name: "web", ContainerPort: 8080}, {Name: "90", ContainerPort: 9000}}}
)

func TestHTTPRequestOfAProbe(t *testing.T) {
	agent, accept := host.Header{Name: "User-Agent", Value: "kube-probe/1.37"}, host.Header{Name: "Accept", Value: "*/*"}
	for _, test := range []struct {
		name   string
		action v1.HTTPGetAction
		want   host.HTTPRequest
	}{
		{
			"goes to the pod with the defaults", v1.HTTPGetAction{Port: intstr.FromInt32(80), Path: "/a?b=c"},
			host.HTTPRequest{Scheme: "http", Host: "10.0.0.7", Port: 80, Path: "/a?b=c", Headers: []host.Header{agent, accept}},
		},
		{
			"resolves a named port and lowers the scheme",
			v1.HTTPGetAction{Port: intstr.FromString("web"), Scheme: v1.URISchemeHTTPS, Host: "example.org"},
			host.HTTPRequest{Scheme: "https", Host: "example.org", Port: 8080, Headers: []host.Header{agent, accept}},
		},
		{
			"prefers the name of a port to its number", v1.HTTPGetAction{Port: intstr.FromString("90")},
			host.HTTPRequest{Scheme: "http", Host: "10.0.0.7", Port: 9000, Headers: []host.Header{agent, accept}},
		},
		{
			"takes a text for a number", v1.HTTPGetAction{Port: intstr.FromString("81")},
			host.HTTPRequest{Scheme: "http", Host: "10.0.0.7", Port: 81, Headers: []host.Header{agent, accept}},
		},
		{
			"keeps headers that are given twice and adds no default to those given",
			v1.HTTPGetAction{Port: intstr.FromInt32(80), HTTPHeaders: []v1.HTTPHeader{
				{Name: "X", Value: "1"}, {Name: "x", Value: "2"}, {Name: "user-agent", Value: "me"}, {Name: "accept", Value: "text/plain"},
			}},
			host.HTTPRequest{Scheme: "http", Host: "10.0.0.7", Port: 80, Headers: []host.Header{
				{Name: "X", Value: "1"}, {Name: "x", Value: "2"}, {Name: "user-agent", Value: "me"}, {Name: "accept", Value: "text/plain"},
			}},
		},
		{
			"sends no Accept if an empty one is given",
			v1.HTTPGetAction{Port: intstr.FromInt32(80), HTTPHeaders: []v1.HTTPHeader{{Name: "Accept"}}},
			host.HTTPRequest{Scheme: "http", Host: "10.0.0.7", Port: 80, Headers: []host.Header{agent}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := ProbeHTTPRequest(httpPod, httpContainer, &test.action, "10.0.0.7")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHTTPRequestOfAHookNamesItself(t *testing.T) {
	got, err := HookHTTPRequest(httpPod, httpContainer, &v1.HTTPGetAction{Port: intstr.FromInt32(80)}, "fd00::1")
	if err != nil {
		t.Fatal(err)
	}
	if got.Host != "fd00::1" || got.Headers[0] != (host.Header{Name: "User-Agent", Value: "kube-lifecycle/1.37"}) {
		t.Errorf("got %+v", got)
	}
}

func TestTCPAndGRPCRequestsOfAProbe(t *testing.T) {
	tcp, err := ProbeTCPRequest(httpPod, httpContainer, &v1.TCPSocketAction{Port: intstr.FromString("web")}, "10.0.0.7")
	if err != nil || *tcp != (host.TCPRequest{Host: "10.0.0.7", Port: 8080}) {
		t.Errorf("got %+v, %v", tcp, err)
	}
	grpc, err := ProbeGRPCRequest(httpPod, httpContainer, &v1.GRPCAction{Port: 50051, Service: new("x")}, "10.0.0.7")
	want := host.GRPCRequest{Host: "10.0.0.7", Port: 50051, Service: "x", UserAgent: "kube-probe/1.37"}
	if err != nil || *grpc != want {
		t.Errorf("got %+v, %v", grpc, err)
	}
}

func TestActionThatLeadsNowhereNamesItsField(t *testing.T) {
	for _, test := range []struct {
		port intstr.IntOrString
		ip   string
		want string
	}{
		{intstr.FromString("gone"), "10.0.0.7", `httpGet of container "main" in pod "ns/p": invalid argument: port "gone" is neither`},
		{intstr.FromInt32(0), "10.0.0.7", "port 0 is not between"},
		{intstr.FromInt32(65536), "10.0.0.7", "port 65536 is not between"},
		{intstr.FromInt32(80), "", "no IP address"},
	} {
		_, err := ProbeHTTPRequest(httpPod, httpContainer, &v1.HTTPGetAction{Port: test.port}, test.ip)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("port %s: %v, want %q", test.port.String(), err, test.want)
		}
	}
}
