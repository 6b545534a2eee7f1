// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodCgroup is the control group of a pod.
type PodCgroup struct {
	UID       types.UID
	Class     v1.PodQOSClass
	Resources CgroupResources
}

// CgroupResources are what a control group gets.
type CgroupResources struct {
	// CPUShares is the weight against groups beside it, in the unit of cgroup v1, of which a CPU has 1024.
	CPUShares int64
	// CPUQuota is how many microseconds of CPU it gets in each period of cri.CPUPeriodMicros; zero is no limit.
	CPUQuota int64
	// MemoryBytes is how much memory it may use; zero is no limit.
	MemoryBytes int64
	// HugePages are how much of huge pages it may use, ordered by size. Of sizes that are not among them it may use none, as
	// far as the host can limit them.
	HugePages []HugePageLimit
	// PIDs is how many processes and threads it may have; zero is no limit.
	PIDs int64
}

// HugePageLimit limits the use of huge pages of one size. Both are bytes.
type HugePageLimit struct {
	PageBytes int64
	Bytes     int64
}

// Equal says whether two groups get the same.
func (r CgroupResources) Equal(other CgroupResources) bool {
	return r.CPUShares == other.CPUShares && r.CPUQuota == other.CPUQuota && r.MemoryBytes == other.MemoryBytes &&
		r.PIDs == other.PIDs && slices.Equal(r.HugePages, other.HugePages)
}

// PodCgroups makes control groups of pods. Each is removed with the pod's directory, by PodDirs.RemovePod. Both methods are
// idempotent. Unimplemented means that the host is of a version that has none: the runtime then makes its own.
type PodCgroups interface {
	// EnsurePodCgroup makes the pod's group below that of its class, gives it its resources, and returns the parent for the
	// configuration of its sandbox.
	EnsurePodCgroup(ctx context.Context, pod PodCgroup) (parent string, err error)
	// SetCgroupTiers sets what the pods of the burstable class weigh together against the guaranteed ones, in CPU shares.
	// Those of the best effort class weigh the least.
	SetCgroupTiers(ctx context.Context, burstableShares int64) error
}
