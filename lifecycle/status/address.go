// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"net/netip"

	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// setAddresses fills in the addresses of the host and of the pod. Those of the pod outlive its sandbox, so that who
// looks at a completed pod still sees where it was. On the host's network they are the host's and, once set, stay.
func (g *generation) setAddresses(status *v1.PodStatus) {
	status.HostIP, status.HostIPs = g.old.HostIP, g.old.HostIPs
	if len(g.in.HostIPs) > 0 {
		status.HostIP = g.in.HostIPs[0]
		status.HostIPs = nil
		for _, ip := range g.in.HostIPs[:min(2, len(g.in.HostIPs))] {
			status.HostIPs = append(status.HostIPs, v1.HostIP{IP: ip})
		}
	}
	if g.in.Pod.Spec.HostNetwork {
		status.PodIPs = g.hostNetworkIPs()
	} else {
		status.PodIPs = g.podIPs()
	}
	if len(status.PodIPs) > 0 {
		status.PodIP = status.PodIPs[0].IP
	}
}

// podIPs are the addresses that the runtime gave the pod.
func (g *generation) podIPs() []v1.PodIP {
	var ips []v1.PodIP
	if g.in.Runtime != nil {
		for _, ip := range podrules.PodIPs(g.in.Pod, g.in.Runtime.IPs, g.in.HostIPs) {
			ips = append(ips, v1.PodIP{IP: ip})
		}
	}
	if len(ips) == 0 {
		return g.old.PodIPs
	}
	return ips
}

// hostNetworkIPs are the host's addresses at the time the first was known. A second family may join later.
func (g *generation) hostNetworkIPs() []v1.PodIP {
	ips := append([]v1.PodIP(nil), g.old.PodIPs...)
	if len(ips) == 0 && len(g.in.HostIPs) > 0 {
		ips = []v1.PodIP{{IP: g.in.HostIPs[0]}}
	}
	if len(ips) == 1 && len(g.in.HostIPs) > 1 && is4(ips[0].IP) != is4(g.in.HostIPs[1]) {
		ips = append(ips, v1.PodIP{IP: g.in.HostIPs[1]})
	}
	return ips
}

func is4(s string) bool {
	ip, err := netip.ParseAddr(s)
	return err == nil && ip.Unmap().Is4()
}
