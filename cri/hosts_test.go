// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
)

func TestHostsFile(t *testing.T) {
	const managed = `# Kubernetes-managed hosts file.
127.0.0.1	localhost
::1	localhost ip6-localhost ip6-loopback
fe00::0	ip6-localnet
fe00::0	ip6-mcastprefix
fe00::1	ip6-allnodes
fe00::2	ip6-allrouters
`
	aliases := []v1.HostAlias{{IP: "192.0.2.1", Hostnames: []string{"a", "b.example"}}, {IP: "2001:db8::1", Hostnames: []string{"c"}}}
	for _, tt := range []struct {
		desc string
		spec v1.PodSpec
		ips  []string
		want string
	}{
		{desc: "a pod without a name of its own", ips: []string{"10.0.0.7"}, want: managed + "10.0.0.7\tp\n"},
		{
			desc: "a pod of two families with a domain", spec: v1.PodSpec{Hostname: "db-0", Subdomain: "db"},
			ips:  []string{"10.0.0.7", "2001:db8::7"},
			want: managed + "10.0.0.7\tdb-0.db.ns.svc.cluster.local\tdb-0\n2001:db8::7\tdb-0.db.ns.svc.cluster.local\tdb-0\n",
		},
		{
			desc: "a pod whose name is overridden has no domain",
			spec: v1.PodSpec{Hostname: "db-0", Subdomain: "db", HostnameOverride: new("box.example")},
			ips:  []string{"10.0.0.7"}, want: managed + "10.0.0.7\tbox.example\n",
		},
		{
			desc: "aliases come last, each on a line", spec: v1.PodSpec{HostAliases: aliases}, ips: []string{"10.0.0.7"},
			want: managed + "10.0.0.7\tp\n\n# Entries added by HostAliases.\n192.0.2.1\ta\tb.example\n2001:db8::1\tc\n",
		},
		{
			desc: "the host's file and aliases on its network", spec: v1.PodSpec{HostNetwork: true, HostAliases: aliases[:1]},
			ips:  []string{"198.51.100.1"},
			want: "# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost edge-1\n\n# Entries added by HostAliases.\n192.0.2.1\ta\tb.example\n",
		},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			got := HostsFile(HostsInput{
				Pod: somePod(tt.spec), ClusterDomain: "cluster.local", IPs: tt.ips, HostFile: "127.0.0.1 localhost edge-1\n",
			})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhoGetsTheHostsFile(t *testing.T) {
	mounting := func(path string) *v1.Container {
		return &v1.Container{Name: "c", VolumeMounts: []v1.VolumeMount{{Name: "v", MountPath: path}}}
	}
	for _, tt := range []struct {
		desc string
		spec v1.PodSpec
		c    *v1.Container
		ips  []string
		want bool
	}{
		{desc: "a container of a pod with an address", c: mounting("/data"), ips: []string{"10.0.0.7"}, want: true},
		{desc: "one that mounts the directory above", c: mounting("/etc"), ips: []string{"10.0.0.7"}, want: true},
		{desc: "not one that has its own", c: mounting("/etc/hosts"), ips: []string{"10.0.0.7"}},
		{desc: "not one that has its own by a relative path", c: mounting("etc/hosts/"), ips: []string{"10.0.0.7"}},
		{desc: "not one of a pod without an address", c: mounting("/data")},
		{desc: "one on the host's network, without", spec: v1.PodSpec{HostNetwork: true}, c: mounting("/data"), want: true},
	} {
		if got := NeedsHostsFile(somePod(tt.spec), tt.c, tt.ips); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.desc, got, tt.want)
		}
	}
}
