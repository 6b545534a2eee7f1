// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// LinuxResources are CPU and memory of a container as the runtime has them. A quota that is not positive and a memory
// limit of 0 are no limits.
type LinuxResources struct {
	CPUShares        int64
	CPUPeriod        int64
	CPUQuota         int64
	MemoryLimitBytes int64
}

// reportedResources returns nil if the runtime says nothing: every container has shares.
func reportedResources(r *runtimeapi.LinuxContainerResources) *LinuxResources {
	if r.GetCpuShares() == 0 {
		return nil
	}
	return &LinuxResources{
		CPUShares: r.GetCpuShares(), CPUPeriod: r.GetCpuPeriod(), CPUQuota: r.GetCpuQuota(),
		MemoryLimitBytes: r.GetMemoryLimitInBytes(),
	}
}

// In returns what was asked for, with what the runtime has in its place where that is something else. The runtime knows
// nothing of memory requests, and many amounts of CPU are the same to it. Nil changes nothing. The result shares nothing
// with its argument.
func (r *LinuxResources) In(asked v1.ResourceRequirements) v1.ResourceRequirements {
	out := *asked.DeepCopy()
	if r == nil {
		return out
	}
	want := UpdatedResources(asked)
	if r.CPUShares != want.CpuShares {
		out.Requests = with(out.Requests, v1.ResourceCPU, resource.NewMilliQuantity(milliOf(r.CPUShares, sharesPerCPU), resource.DecimalSI))
	}
	if max(r.CPUQuota, 0) != max(want.CpuQuota, 0) {
		out.Limits = with(out.Limits, v1.ResourceCPU, resource.NewMilliQuantity(milliOf(max(r.CPUQuota, 0), r.CPUPeriod), resource.DecimalSI))
	}
	if r.MemoryLimitBytes != want.MemoryLimitInBytes {
		out.Limits = with(out.Limits, v1.ResourceMemory, resource.NewQuantity(r.MemoryLimitBytes, resource.BinarySI))
	}
	return out
}

// milliOf is the inverse of how amounts of CPU are made: the least number of thousandths that gives the value.
func milliOf(value, whole int64) int64 {
	if whole <= 0 {
		whole = CPUPeriodMicros
	}
	return (value*milliCPUsPerCPU + whole - 1) / whole
}

// with sets an amount in a list; zero is none.
func with(list v1.ResourceList, name v1.ResourceName, amount *resource.Quantity) v1.ResourceList {
	switch {
	case amount.IsZero():
		delete(list, name)
	case list == nil:
		list = v1.ResourceList{name: *amount}
	default:
		list[name] = *amount
	}
	return list
}
