// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podrules

import (
	"net/netip"

	v1 "k8s.io/api/core/v1"
)

// PodIPs returns the pod's addresses, at most one of each family and the one of the host's primary family first: those that
// the runtime gave its sandbox or, on the host's network, the host's.
func PodIPs(pod *v1.Pod, sandbox, host []string) []string {
	from := sandbox
	if pod.Spec.HostNetwork {
		from = host
	}
	var primary, other []string
	primaryIs4 := len(host) == 0 || is4(host[0])
	for _, s := range from {
		ip, err := netip.ParseAddr(s)
		if err != nil {
			continue
		}
		ip = ip.Unmap().WithZone("")
		if ip.Is4() == primaryIs4 && len(primary) == 0 {
			primary = []string{ip.String()}
		}
		if ip.Is4() != primaryIs4 && len(other) == 0 {
			other = []string{ip.String()}
		}
	}
	return append(primary, other...)
}

func is4(s string) bool {
	ip, err := netip.ParseAddr(s)
	return err == nil && ip.Unmap().Is4()
}
