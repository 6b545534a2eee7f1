// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"fmt"
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// HostsPath is where containers have their hosts file.
const HostsPath = "/etc/hosts"

// The first lines of a hosts file, by which users know who wrote it, and what every file of a pod's own network has, all to
// the letter the kubelet's.
const (
	hostsHeader            = "# Kubernetes-managed hosts file.\n"
	hostsHeaderHostNetwork = "# Kubernetes-managed hosts file (host network).\n"
	hostsHeaderAliases     = "\n# Entries added by HostAliases.\n"
	hostsLoopback          = "127.0.0.1\tlocalhost\n" +
		"::1\tlocalhost ip6-localhost ip6-loopback\n" +
		"fe00::0\tip6-localnet\n" +
		"fe00::0\tip6-mcastprefix\n" +
		"fe00::1\tip6-allnodes\n" +
		"fe00::2\tip6-allrouters\n"
)

// HostsInput is what a pod's hosts file is made of.
type HostsInput struct {
	Pod           *v1.Pod
	ClusterDomain string
	// IPs are the pod's addresses. They are of no use on the host's network.
	IPs []string
	// HostFile is the content of the host's own file, which pods on its network get.
	HostFile string
}

// HostsFile returns the content of the hosts file that all containers of a pod share.
func HostsFile(in HostsInput) string {
	var b strings.Builder
	if in.Pod.Spec.HostNetwork {
		b.WriteString(hostsHeaderHostNetwork)
		b.WriteString(in.HostFile)
	} else {
		b.WriteString(hostsHeader)
		b.WriteString(hostsLoopback)
		names := Hostname(in.Pod)
		if domain := hostDomain(in.Pod, in.ClusterDomain); domain != "" {
			names = names + "." + domain + "\t" + names
		}
		for _, ip := range in.IPs {
			fmt.Fprintf(&b, "%s\t%s\n", ip, names)
		}
	}
	if len(in.Pod.Spec.HostAliases) > 0 {
		b.WriteString(hostsHeaderAliases)
	}
	for _, alias := range in.Pod.Spec.HostAliases {
		fmt.Fprintf(&b, "%s\t%s\n", alias.IP, strings.Join(alias.Hostnames, "\t"))
	}
	return b.String()
}

// NeedsHostsFile says whether the container gets the pod's hosts file: not if it mounts something there itself, and not
// before the pod has an address, unless it has those of the host.
func NeedsHostsFile(pod *v1.Pod, c *v1.Container, ips []string) bool {
	own := func(m v1.VolumeMount) bool { return path.Join("/", m.MountPath) == HostsPath }
	return (len(ips) > 0 || pod.Spec.HostNetwork) && !slices.ContainsFunc(c.VolumeMounts, own)
}
