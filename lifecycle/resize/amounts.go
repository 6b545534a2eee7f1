// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package resize

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// amounts are the resources of one container that can be changed while it runs: CPU in thousandths, memory in bytes. Zero
// is none.
type amounts struct {
	cpuRequest, cpuLimit, memoryRequest, memoryLimit int64
}

func amountsOf(r v1.ResourceRequirements) amounts {
	return amounts{
		cpuRequest: r.Requests.Cpu().MilliValue(), cpuLimit: r.Limits.Cpu().MilliValue(),
		memoryRequest: r.Requests.Memory().Value(), memoryLimit: r.Limits.Memory().Value(),
	}
}

// differ says whether the amounts of one resource differ.
func (a amounts) differ(b amounts, name v1.ResourceName) bool {
	if name == v1.ResourceCPU {
		return a.cpuRequest != b.cpuRequest || a.cpuLimit != b.cpuLimit
	}
	return a.memoryRequest != b.memoryRequest || a.memoryLimit != b.memoryLimit
}

// with returns the amounts with those of one resource taken from another.
func (a amounts) with(b amounts, name v1.ResourceName) amounts {
	if name == v1.ResourceCPU {
		a.cpuRequest, a.cpuLimit = b.cpuRequest, b.cpuLimit
	} else {
		a.memoryRequest, a.memoryLimit = b.memoryRequest, b.memoryLimit
	}
	return a
}

// grows says whether the resource's limit, or its request where the limit stays, is larger in b.
func (a amounts) grows(b amounts, name v1.ResourceName) bool {
	request, limit := b.cpuRequest-a.cpuRequest, b.cpuLimit-a.cpuLimit
	if name == v1.ResourceMemory {
		request, limit = b.memoryRequest-a.memoryRequest, b.memoryLimit-a.memoryLimit
	}
	if limit != 0 {
		return limit > 0
	}
	return request > 0
}

// requirements writes the amounts as the API does. Zero amounts are left out.
func (a amounts) requirements() v1.ResourceRequirements {
	out := v1.ResourceRequirements{Requests: v1.ResourceList{}, Limits: v1.ResourceList{}}
	for _, x := range []struct {
		list   v1.ResourceList
		cpu    int64
		memory int64
	}{{out.Requests, a.cpuRequest, a.memoryRequest}, {out.Limits, a.cpuLimit, a.memoryLimit}} {
		if x.cpu != 0 {
			x.list[v1.ResourceCPU] = *resource.NewMilliQuantity(x.cpu, resource.DecimalSI)
		}
		if x.memory != 0 {
			x.list[v1.ResourceMemory] = *resource.NewQuantity(x.memory, resource.BinarySI)
		}
	}
	return out
}

// belowUsage is the kubelet's refusal to take memory away that is in use.
func belowUsage(container string, limit int64, usage uint64) error {
	return fmt.Errorf("attempting to set container %q memory limit (%d) below current usage (%d)", container, limit, usage)
}
