// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"fmt"
	"sync"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// Cgroups makes the control group of a pod and changes its resources. It is idempotent. NotImplemented means that the machine
// has none for pods; the runtime then makes its own.
type Cgroups interface {
	EnsurePodCgroup(ctx context.Context, pod host.PodCgroup) (parent string, err error)
}

// cgroupMemory is what this process made of control groups. It may be lost: what is not in it is done again.
type cgroupMemory struct {
	mu   sync.Mutex
	pods map[types.UID]madeCgroup
	// sandboxes are what the runtime was told of them.
	sandboxes map[types.UID]toldSandbox
}

// madeCgroup is a control group as it was made last.
type madeCgroup struct {
	resources host.CgroupResources
	parent    string
}

func newCgroupMemory() *cgroupMemory {
	return &cgroupMemory{pods: map[types.UID]madeCgroup{}, sandboxes: map[types.UID]toldSandbox{}}
}

func (m *cgroupMemory) told(uid types.UID) (toldSandbox, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, ok := m.sandboxes[uid]
	return t, ok
}

func (m *cgroupMemory) tell(uid types.UID, t toldSandbox) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sandboxes[uid] = t
}

func (m *cgroupMemory) get(uid types.UID) (madeCgroup, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	made, ok := m.pods[uid]
	return made, ok
}

func (m *cgroupMemory) set(uid types.UID, made madeCgroup) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pods[uid] = made
}

func (m *cgroupMemory) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pods, uid)
	delete(m.sandboxes, uid)
}

// cgroupFor returns the control group that a pod shall have: its shares follow from all that it requests, and it is limited
// as a whole if each of its containers is, or it is by itself. Of processes each pod may have as many, of huge pages what it
// asks for.
func cgroupFor(pod *v1.Pod, maxPIDs int64) host.PodCgroup {
	out := host.PodCgroup{UID: pod.UID, Class: podrules.QOSClass(pod), Resources: host.CgroupResources{CPUShares: cri.MinCPUShares, PIDs: maxPIDs}}
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	limits := resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})
	for _, a := range cri.HugePages(limits) {
		out.Resources.HugePages = append(out.Resources.HugePages, host.HugePageLimit{PageBytes: a.Size, Bytes: a.Bytes})
	}
	if out.Class == v1.PodQOSBestEffort {
		return out
	}
	out.Resources.CPUShares = cri.CPUShares(requests.Cpu().MilliValue())
	if limited(pod, v1.ResourceCPU) {
		out.Resources.CPUQuota = cri.CPUQuota(limits.Cpu().MilliValue())
	}
	if limited(pod, v1.ResourceMemory) {
		out.Resources.MemoryBytes = limits.Memory().Value()
	}
	return out
}

// limited says whether the pod as a whole has a limit of a resource: its own, or those of all its containers.
func limited(pod *v1.Pod, name v1.ResourceName) bool {
	if resourcehelper.IsPodLevelLimitsSet(pod) {
		if own := pod.Spec.Resources.Limits[name]; !own.IsZero() {
			return true
		}
	}
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if own := containers[i].Resources.Limits[name]; own.IsZero() {
				return false
			}
		}
	}
	return true
}

// widest returns resources that have room for either of two, of which only the second has huge pages that can change.
func widest(a, b host.CgroupResources) host.CgroupResources {
	return host.CgroupResources{
		CPUShares: max(a.CPUShares, b.CPUShares), CPUQuota: wider(a.CPUQuota, b.CPUQuota), MemoryBytes: wider(a.MemoryBytes, b.MemoryBytes),
		HugePages: b.HugePages, PIDs: wider(a.PIDs, b.PIDs),
	}
}

// wider returns the greater of two limits, of which zero is none.
func wider(a, b int64) int64 {
	if a == 0 || b == 0 {
		return 0
	}
	return max(a, b)
}

// widenCgroup makes the pod's control group with room for what its containers have and for what they shall have. Nothing
// runs in that of a pod that gets a new sandbox.
func (p *pass) widenCgroup(ctx context.Context) error {
	if p.opts.Cgroups == nil {
		return nil
	}
	want := p.cgroup
	made, known := p.cgroups.get(p.pod.UID)
	switch {
	case p.actions.CreateSandbox:
	case known && made.resources.Equal(want.Resources):
		p.cgroupParent = made.parent
		return nil
	case known:
		want.Resources = widest(made.resources, want.Resources)
	default: // what an earlier process made may be less
		want.Resources.CPUQuota, want.Resources.MemoryBytes = 0, 0
	}
	return p.setCgroup(ctx, want)
}

// settleCgroup gives the pod's control group what its containers have now.
func (p *pass) settleCgroup(ctx context.Context) error {
	if p.opts.Cgroups == nil {
		return nil
	}
	if made, known := p.cgroups.get(p.pod.UID); !known || made.resources.Equal(p.cgroup.Resources) {
		return nil
	}
	return p.setCgroup(ctx, p.cgroup)
}

func (p *pass) setCgroup(ctx context.Context, want host.PodCgroup) error {
	timed, cancel := context.WithTimeout(ctx, hostTimeout)
	defer cancel()
	parent, err := p.opts.Cgroups.EnsurePodCgroup(timed, want)
	switch {
	case errdefs.IsNotImplemented(err):
		return nil
	case err != nil:
		if !untold(ctx, err) {
			p.event(v1.EventTypeWarning, "FailedCreatePodContainer", fmt.Sprintf("unable to ensure pod container exists: %v", err))
		}
		return fmt.Errorf("making the control group of the pod: %w", err)
	}
	p.cgroupParent = parent
	p.cgroups.set(p.pod.UID, madeCgroup{want.Resources, parent})
	return nil
}
