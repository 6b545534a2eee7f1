// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package evict

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// Reason is the kubelet's reason for the status of evicted pods and for the event.
const Reason = "Evicted"

// Signals are what evictions are counted by, in the kubelet's words.
const (
	SignalEmptyDir  = "emptydirfs.limit"
	SignalPod       = "ephemeralpodfs.limit"
	SignalContainer = "ephemeralcontainerfs.limit"
)

// criticalPriority is the least priority of pods that are never evicted, the API's system-cluster-critical.
const criticalPriority = 2_000_000_000

// Verdict says why a pod has to go. The message is the kubelet's.
type Verdict struct {
	Signal, Message string
}

// Limits says what of a pod is limited, and so has to be measured.
type Limits struct {
	// EmptyDirs says that an emptyDir on disk has a limit, Storage that the pod or a container has one.
	EmptyDirs, Storage bool
}

// LimitsOf returns what of a pod is limited. Nothing is of one that is never evicted.
func LimitsOf(pod *v1.Pod) Limits {
	if podrules.Static(pod) || pod.Spec.Priority != nil && *pod.Spec.Priority >= criticalPriority {
		return Limits{}
	}
	var out Limits
	for i := range pod.Spec.Volumes {
		out.EmptyDirs = out.EmptyDirs || limited(&pod.Spec.Volumes[i])
	}
	for _, c := range podrules.Containers(pod) {
		out.Storage = out.Storage || !c.Resources.Limits.StorageEphemeral().IsZero()
	}
	return out
}

// limited says whether a volume is an emptyDir on disk with a limit. The kernel limits one in memory.
func limited(v *v1.Volume) bool {
	return v.EmptyDir != nil && v.EmptyDir.Medium == v1.StorageMediumDefault && v.EmptyDir.SizeLimit != nil && v.EmptyDir.SizeLimit.Sign() > 0
}

// Judge returns why a pod that takes so much has to go; ok is false if it may stay.
func Judge(pod *v1.Pod, usage *host.PodUsage) (verdict Verdict, ok bool) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if limited(v) && v.EmptyDir.SizeLimit.CmpInt64(usage.Volumes[v.Name]) < 0 {
			return Verdict{SignalEmptyDir, fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", v.Name, v.EmptyDir.SizeLimit.String())}, true
		}
	}
	limits := resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})
	if limit, found := limits[v1.ResourceEphemeralStorage]; found && limit.CmpInt64(total(usage)) < 0 {
		return Verdict{SignalPod, fmt.Sprintf("Pod ephemeral local storage usage exceeds the total limit of containers %s. ", limit.String())}, true
	}
	for kind, c := range podrules.Containers(pod) {
		limit := c.Resources.Limits.StorageEphemeral()
		if kind != podrules.RegularContainer && kind != podrules.Sidecar || limit.IsZero() {
			continue
		}
		if limit.CmpInt64(ofContainer(usage.Containers[c.Name])) < 0 {
			return Verdict{SignalContainer, fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q. ", c.Name, limit.String())}, true
		}
	}
	return Verdict{}, false
}

// total is everything that a pod takes.
func total(usage *host.PodUsage) int64 {
	sum := usage.Other
	for _, bytes := range usage.Volumes {
		sum += bytes
	}
	for _, c := range usage.Containers {
		sum += c.Logs + c.Layer
	}
	return sum
}

// ofContainer is what counts against a container's own limit: a layer on a disk for images does not.
func ofContainer(c host.ContainerUsage) int64 {
	if c.Elsewhere {
		return c.Logs
	}
	return c.Logs + c.Layer
}
