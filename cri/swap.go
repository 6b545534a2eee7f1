// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"math/big"

	v1 "k8s.io/api/core/v1"
)

// Swap is the swap space of a machine and who may use it.
type Swap struct {
	// Bytes is how much there is. Control says that its use can be limited.
	Bytes   uint64
	Control bool
	// Limited gives burstable containers a share of it, the kubelet's LimitedSwap. Without it nobody may use any (NoSwap).
	Limited bool
}

// annotationSource is where a pod is from, in the kubelet's words.
const (
	annotationSource = "kubernetes.io/config.source"
	sourceAPI        = "api"
)

// criticalSystemPriority is the priority from which on pods are critical to the node.
const criticalSystemPriority = 2_000_000_000

// UsesSwap says whether the container may use swap on a machine with cgroup v2: a burstable one that is not critical and
// requests some memory, but less than it may use.
func (s Swap) UsesSwap(pod *v1.Pod, c *v1.Container) bool {
	request, limit := c.Resources.Requests.Memory(), c.Resources.Limits.Memory()
	return s.Limited && s.Control && pod.Status.QOSClass == v1.PodQOSBurstable && !critical(pod) && request.Cmp(*limit) != 0
}

// critical says whether the node cannot do without the pod. Static pods, which are from a file or a URL, count as such.
func critical(pod *v1.Pod) bool {
	if source := pod.Annotations[annotationSource]; source != "" && source != sourceAPI {
		return true
	}
	return pod.Spec.Priority != nil && *pod.Spec.Priority >= criticalSystemPriority
}

// swapLimit is the container's part of the swap space in bytes: what its request is of the machine's memory.
func swapLimit(in ContainerInput) int64 {
	request := in.Container.Resources.Requests.Memory().Value()
	if in.NodeMemoryBytes == 0 || request < 0 || uint64(request) > in.NodeMemoryBytes || !in.Swap.UsesSwap(in.Pod, in.Container) {
		return 0
	}
	part := new(big.Int).Mul(big.NewInt(request), new(big.Int).SetUint64(in.Swap.Bytes))
	return part.Div(part, new(big.Int).SetUint64(in.NodeMemoryBytes)).Int64()
}
