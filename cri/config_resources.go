// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// How CPU amounts become cgroup values, as in the kubelet: shares between the kernel's bounds, and a quota of at least a
// millisecond in each period of 100 ms (cpuCFSQuotaPeriod).
const (
	// CPUPeriodMicros is the period in microseconds that CPU quotas refer to.
	CPUPeriodMicros = 100_000
	// MinCPUShares is the least that the kernel takes for CPU shares.
	MinCPUShares = 2

	sharesPerCPU     = 1024
	maxShares        = 262144
	minQuotaMicros   = 1000
	milliCPUsPerCPU  = 1000
	criticalPriority = "system-node-critical"
)

// The kubelet's oom_score_adj: what the kernel kills first when memory runs out.
const (
	oomGuaranteed   = -997
	oomBestEffort   = 1000
	oomBurstableMin = 1000 + oomGuaranteed

	// maxNodeMemory keeps the arithmetic within 64 bits.
	maxNodeMemory = 1 << 52
)

// containerResources are the limits of one container. What the container leaves open is limited by the pod's own limits,
// if there are any.
func containerResources(in ContainerInput) *runtimeapi.LinuxContainerResources {
	c := in.Container
	cpuLimit, memoryLimit := c.Resources.Limits.Cpu(), c.Resources.Limits.Memory()
	if resourcehelper.IsPodLevelResourcesSet(in.Pod) {
		if cpuLimit.IsZero() {
			cpuLimit = in.Pod.Spec.Resources.Limits.Cpu()
		}
		if memoryLimit.IsZero() {
			memoryLimit = in.Pod.Spec.Resources.Limits.Memory()
		}
	}
	cpuRequest := cpuLimit
	if _, ok := c.Resources.Requests[v1.ResourceCPU]; ok {
		cpuRequest = c.Resources.Requests.Cpu()
	}
	out := linuxResources(cpuRequest, cpuLimit, memoryLimit)
	out.OomScoreAdj = oomScoreAdj(in.Pod, c, in.NodeMemoryBytes)
	out.HugepageLimits = hugePageLimits(in)
	if in.CgroupVersion == 2 {
		out.Unified = map[string]string{"memory.oom.group": "1"}
		if in.Swap.Control {
			out.Unified["memory.swap.max"] = strconv.FormatInt(swapLimit(in), 10)
		}
	}
	return out
}

// podResources are the pod's totals without its overhead, for runtimes that size a virtual machine by them.
func podResources(pod *v1.Pod) *runtimeapi.LinuxContainerResources {
	options := resourcehelper.PodResourcesOptions{ExcludeOverhead: true}
	requests, limits := resourcehelper.PodRequests(pod, options), resourcehelper.PodLimits(pod, options)
	request := requests.Cpu()
	if request.IsZero() {
		request = limits.Cpu()
	}
	return linuxResources(request, limits.Cpu(), limits.Memory())
}

// SandboxOverhead is the pod's overhead, which counts as request and limit; nil if it has none.
func SandboxOverhead(pod *v1.Pod) *runtimeapi.LinuxContainerResources {
	if pod.Spec.Overhead == nil {
		return nil
	}
	cpu, memory := pod.Spec.Overhead.Cpu(), pod.Spec.Overhead.Memory()
	return linuxResources(cpu, cpu, memory)
}

func linuxResources(cpuRequest, cpuLimit, memoryLimit *resource.Quantity) *runtimeapi.LinuxContainerResources {
	return &runtimeapi.LinuxContainerResources{
		CpuShares:          CPUShares(cpuRequest.MilliValue()),
		CpuPeriod:          CPUPeriodMicros,
		CpuQuota:           CPUQuota(cpuLimit.MilliValue()),
		MemoryLimitInBytes: memoryLimit.Value(),
	}
}

// CPUShares returns the weight of an amount of CPU in thousandths of a CPU.
func CPUShares(milli int64) int64 {
	return min(max(milli*sharesPerCPU/milliCPUsPerCPU, MinCPUShares), maxShares)
}

// CPUQuota returns how many microseconds of each period an amount of CPU is, given in thousandths of a CPU; 0 is unlimited.
func CPUQuota(milli int64) int64 {
	if milli == 0 {
		return 0
	}
	return max(milli*CPUPeriodMicros/milliCPUsPerCPU, minQuotaMicros)
}

// oomScoreAdj relates what a burstable container requested to the memory of the machine: it should be killed the earlier
// the more it uses beyond that. A pod's class is that of its status, which the API server sets when it is created.
func oomScoreAdj(pod *v1.Pod, c *v1.Container, nodeMemory uint64) int64 {
	switch {
	case pod.Spec.PriorityClassName == criticalPriority, pod.Status.QOSClass == v1.PodQOSGuaranteed:
		return oomGuaranteed
	case pod.Status.QOSClass == v1.PodQOSBestEffort:
		return oomBestEffort
	case nodeMemory == 0:
		return oomBestEffort - 1
	}
	share := unallocatedShare(pod)
	request := c.Resources.Requests.Memory().Value() + share
	if isSidecar(pod, c) {
		request = max(request, smallestRequest(pod)+share)
	}
	memory := int64(min(nodeMemory, maxNodeMemory))
	adj := oomBestEffort - oomBestEffort*min(request, memory)/memory
	return min(max(adj, oomBurstableMin), oomBestEffort-1)
}

// unallocatedShare is what each container gets of the pod's own memory request beyond those of its containers. As with the kubelet, all
// init containers have a share, those that have ended too.
func unallocatedShare(pod *v1.Pod) int64 {
	if !resourcehelper.IsPodLevelRequestsSet(pod) {
		return 0
	}
	containers := resourcehelper.AggregateContainerRequests(pod, resourcehelper.PodResourcesOptions{})
	rest := pod.Spec.Resources.Requests.Memory().Value() - containers.Memory().Value()
	count := len(pod.Spec.Containers) + len(pod.Spec.InitContainers)
	return max(rest, 0) / int64(max(count, 1))
}

// isSidecar says that c is an init container of the pod that runs beside the others.
func isSidecar(pod *v1.Pod, c *v1.Container) bool {
	if c.RestartPolicy == nil || *c.RestartPolicy != v1.ContainerRestartPolicyAlways {
		return false
	}
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == c.Name {
			return true
		}
	}
	return false
}

// smallestRequest is the least memory that a regular container of the pod requests.
func smallestRequest(pod *v1.Pod) int64 {
	var least int64
	for i := range pod.Spec.Containers {
		if r := pod.Spec.Containers[i].Resources.Requests.Memory().Value(); i == 0 || r < least {
			least = r
		}
	}
	return least
}
