// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestContainerHashIsStable holds the hashes that are written on containers in the field: a change restarts them all.
func TestContainerHashIsStable(t *testing.T) {
	base := v1.Container{Name: "main", Image: "busybox:1"}
	const want = "ab6e862b"
	if got := ContainerHash(&base); got != want {
		t.Errorf("hash %s, want %s", got, want)
	}
	other := base
	other.Args, other.Env = []string{"x"}, []v1.EnvVar{{Name: "A"}}
	if got := ContainerHash(&other); got != want {
		t.Errorf("hash changed with what is not name or image")
	}
	for _, c := range []v1.Container{{Name: "main", Image: "busybox:2"}, {Name: "main2", Image: "busybox:1"}} {
		if ContainerHash(&c) == want {
			t.Errorf("hash of %s %s is the same", c.Name, c.Image)
		}
	}
}

func TestLogPaths(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u-1", Name: "web", Namespace: "shop"}}
	if got, want := LogDirectory("/var/log/pods", pod), "/var/log/pods/shop_web_u-1"; got != want {
		t.Errorf("directory %s, want %s", got, want)
	}
	if got, want := ContainerLogPath("main", 3), "main/3.log"; got != want {
		t.Errorf("path %s, want %s", got, want)
	}
}

func TestSandboxHostname(t *testing.T) {
	long := strings.Repeat("a", 62) + ".b" // the cut leaves a dot at the end
	for _, tt := range []struct {
		desc string
		name string
		spec v1.PodSpec
		want string
		err  string
	}{
		{desc: "the pod's name", name: "web-0", want: "web-0"},
		{desc: "the host name", name: "web-0", spec: v1.PodSpec{Hostname: "h"}, want: "h"},
		{desc: "the override", name: "web-0", spec: v1.PodSpec{Hostname: "h", HostnameOverride: new("o.example")}, want: "o.example"},
		{desc: "none on the host's network", name: "web-0", spec: v1.PodSpec{Hostname: "h", HostNetwork: true}},
		{desc: "cut to 63 without a dot or dash at its end", name: long, want: strings.Repeat("a", 62)},
		{desc: "63 fit", name: strings.Repeat("a", 63), want: strings.Repeat("a", 63)},
		{desc: "short although there is a subdomain", name: "web-0", spec: v1.PodSpec{Subdomain: "web"}, want: "web-0"},
		{
			desc: "the FQDN", name: "web-0", want: "web-0.web.ns.svc.cluster.local",
			spec: v1.PodSpec{Subdomain: "web", SetHostnameAsFQDN: new(true)},
		},
		{desc: "the FQDN without a subdomain", name: "web-0", want: "web-0", spec: v1.PodSpec{SetHostnameAsFQDN: new(true)}},
		{
			desc: "an FQDN that just fits", name: strings.Repeat("a", 39), want: strings.Repeat("a", 39) + ".web.ns.svc.cluster.local",
			spec: v1.PodSpec{Subdomain: "web", SetHostnameAsFQDN: new(true)},
		},
		{
			desc: "an FQDN that is too long", name: strings.Repeat("a", 40), spec: v1.PodSpec{Subdomain: "web", SetHostnameAsFQDN: new(true)},
			err: "failed to construct FQDN from pod hostname and cluster domain, FQDN " + strings.Repeat("a", 40) + ".web.ns.svc.cluster.local is too long (64 characters is the max, 65 characters requested)",
		},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: tt.name, Namespace: "ns"}, Spec: tt.spec}
			got, err := SandboxHostname(pod, "cluster.local")
			if got != tt.want || (err != nil) != (tt.err != "") || (err != nil && !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("got %q, %v, want %q, %q", got, err, tt.want, tt.err)
			}
		})
	}
}
