// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// anyAddress is every address of the host.
const anyAddress = "0.0.0.0"

// checkPorts refuses a pod that wants a port of the host that another pod has.
func checkPorts(pod *v1.Pod, others []*v1.Pod) *Rejection {
	wanted := hostPorts(pod)
	if len(wanted) == 0 {
		return nil
	}
	for _, other := range others {
		for _, taken := range hostPorts(other) {
			if slices.ContainsFunc(wanted, taken.clashes) {
				return predicate(predicatePorts, "node(s) didn't have free ports for the requested pod ports")
			}
		}
	}
	return nil
}

// hostPort is a port of the host that a pod takes.
type hostPort struct {
	protocol v1.Protocol
	address  string
	port     int32
}

func (p hostPort) clashes(q hostPort) bool {
	return p.protocol == q.protocol && p.port == q.port &&
		(p.address == q.address || p.address == anyAddress || q.address == anyAddress)
}

// hostPorts are those of the containers that run side by side: regular ones and sidecars.
func hostPorts(pod *v1.Pod) []hostPort {
	var out []hostPort
	add := func(c *v1.Container) {
		for _, p := range c.Ports {
			if p.HostPort > 0 {
				out = append(out, hostPort{
					protocol: cmp.Or(p.Protocol, v1.ProtocolTCP), address: cmp.Or(p.HostIP, anyAddress), port: p.HostPort,
				})
			}
		}
	}
	for i := range pod.Spec.InitContainers {
		if podrules.IsSidecar(&pod.Spec.InitContainers[i]) {
			add(&pod.Spec.InitContainers[i])
		}
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i])
	}
	return out
}
