// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// amountsFor reads "cpuRequest cpuLimit memoryRequest memoryLimit"; "" is none.
func amountsFor(cpuRequest, cpuLimit, memoryRequest, memoryLimit string) v1.ResourceRequirements {
	list := func(cpu, memory string) v1.ResourceList {
		out := v1.ResourceList{}
		if cpu != "" {
			out[v1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			out[v1.ResourceMemory] = resource.MustParse(memory)
		}
		return out
	}
	return v1.ResourceRequirements{Requests: list(cpuRequest, memoryRequest), Limits: list(cpuLimit, memoryLimit)}
}

func TestResourcesInEffect(t *testing.T) {
	for name, tc := range map[string]struct {
		reported *runtimeapi.LinuxContainerResources
		asked    v1.ResourceRequirements
		want     v1.ResourceRequirements
	}{
		"not reported": {nil, amountsFor("1", "1", "1Gi", "1Gi"), amountsFor("1", "1", "1Gi", "1Gi")},
		"as asked": {
			&runtimeapi.LinuxContainerResources{CpuShares: 102, CpuPeriod: 100000, CpuQuota: 20000, MemoryLimitInBytes: 1 << 30},
			amountsFor("100m", "0.2", "1Mi", "1024Mi"), amountsFor("100m", "0.2", "1Mi", "1024Mi"),
		},
		"as asked, below what the kernel can tell apart": {
			&runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000, CpuQuota: 1000},
			amountsFor("1m", "5m", "", ""), amountsFor("1m", "5m", "", ""),
		},
		"all different": {
			&runtimeapi.LinuxContainerResources{CpuShares: 102, CpuPeriod: 100000, CpuQuota: 20000, MemoryLimitInBytes: 1 << 20},
			amountsFor("1", "1", "1Gi", "1Gi"), amountsFor("100m", "200m", "1Gi", "1Mi"),
		},
		"another period": {
			&runtimeapi.LinuxContainerResources{CpuShares: 1024, CpuPeriod: 50000, CpuQuota: 25000},
			amountsFor("1", "1", "", ""), amountsFor("1", "500m", "", ""),
		},
		"no limits yet": {
			&runtimeapi.LinuxContainerResources{CpuShares: 1024, CpuPeriod: 100000, CpuQuota: -1},
			amountsFor("1", "1", "1Gi", "1Gi"), amountsFor("1", "", "1Gi", ""),
		},
		"limits and requests that nobody asked for": {
			&runtimeapi.LinuxContainerResources{CpuShares: 1024, CpuPeriod: 100000, CpuQuota: 100000, MemoryLimitInBytes: 1 << 20},
			v1.ResourceRequirements{}, amountsFor("1", "1", "", "1Mi"),
		},
		"nothing asked and nothing in effect": {
			&runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000}, v1.ResourceRequirements{}, v1.ResourceRequirements{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := tc.asked.DeepCopy()
			got := reportedResources(tc.reported).In(tc.asked)
			if !equality.Semantic.DeepEqual(got, tc.want) {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			if !equality.Semantic.DeepEqual(*before, tc.asked) {
				t.Error("what was asked for was changed")
			}
		})
	}
}

func TestEveryAmountOfCPUIsReadBack(t *testing.T) {
	for milli := int64(10); milli < 70_000; milli += 7 {
		asked := v1.ResourceRequirements{}
		q := v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI)}
		told := UpdatedResources(v1.ResourceRequirements{Requests: q, Limits: q})
		got := reportedResources(told).In(asked)
		if got.Requests.Cpu().MilliValue() != milli || got.Limits.Cpu().MilliValue() != milli {
			t.Fatalf("%dm was read back as %s and %s", milli, got.Requests.Cpu(), got.Limits.Cpu())
		}
	}
}
