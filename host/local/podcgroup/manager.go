// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podcgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/manager"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
)

// unlimited is what the library takes for no limit; zero leaves a value as it is.
const unlimited = -1

// removeTries is how often a group is emptied and removed: processes may be on their way out, or fork.
const removeTries = 5

// classes are those that have a group, in the order in which a pod is looked for.
var classes = []v1.PodQOSClass{v1.PodQOSBurstable, v1.PodQOSBestEffort, v1.PodQOSGuaranteed}

// Manager makes and removes groups.
type Manager struct {
	driver string
	open   func(*cgroups.Cgroup) (cgroups.Manager, error)
	kill   func(pid int) error
}

// New returns a Manager for a cgroup driver, "cgroupfs" or "systemd". It touches nothing.
func New(driver string) *Manager {
	return &Manager{driver: driver, open: manager.New, kill: func(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }}
}

// Ensure makes the pod's group and gives it its resources. It returns the parent for the pod's sandbox.
func (m *Manager) Ensure(pod host.PodCgroup) (parent string, err error) {
	g := ofPod(pod.Class, pod.UID)
	if err := m.set(g, pod.Resources, true); err != nil {
		return "", err
	}
	return g.name(m.driver), nil
}

// sharesOfCPU are the CPU shares of one processor.
const sharesOfCPU = 1024

// SetTiers gives the groups of the classes their shares. Pods that ask for nothing get what the others leave. The groups above
// them get as many as the machine has processors: with the share of one process, pods would starve beside what else runs.
func (m *Manager) SetTiers(cpus int, burstableShares int64) error {
	all := host.CgroupResources{CPUShares: int64(cpus) * sharesOfCPU}
	return errors.Join(
		m.set(group{root}, all, false),
		m.set(group{root, kubepods}, all, false),
		m.set(tier(v1.PodQOSBurstable), host.CgroupResources{CPUShares: burstableShares}, false),
		m.set(tier(v1.PodQOSBestEffort), host.CgroupResources{CPUShares: cri.MinCPUShares}, false),
	)
}

// set makes a group and gives it its resources. What only groups of pods are limited in, bounded asks for.
func (m *Manager) set(g group, r host.CgroupResources, bounded bool) error {
	shares := max(r.CPUShares, cri.MinCPUShares)
	resources := &cgroups.Resources{
		// Of the two, the library takes the one that the machine's version has.
		CpuShares: uint64(shares), CpuWeight: cpuWeight(shares),
		CpuQuota: orUnlimited(r.CPUQuota), CpuPeriod: cri.CPUPeriodMicros, Memory: orUnlimited(r.MemoryBytes),
		SkipDevices: true, SkipFreezeOnSet: true,
	}
	cg, err := m.open(g.config(m.driver, resources))
	if err != nil {
		return fmt.Errorf("opening control group %s: %w", g.name(m.driver), err)
	}
	if err := cg.Apply(-1); err != nil { // no process joins it
		return fmt.Errorf("making control group %s: %w", g.name(m.driver), err)
	}
	if bounded {
		resources.PidsLimit = ptr.To(orUnlimited(r.PIDs))
		if r.PIDs <= 0 && !limitsPIDs(cg.Path("pids")) {
			resources.PidsLimit = nil // the machine cannot limit them, and need not
		}
		resources.HugetlbLimit = hugePages(cg.Path("hugetlb"), r.HugePages)
	}
	if err := cg.Set(resources); err != nil {
		return fmt.Errorf("setting the resources of control group %s: %w", g.name(m.driver), err)
	}
	return nil
}

// cpuWeight returns what CPU shares are in the unit of cgroup v2, on a straight line from 2..262144 to 1..10000. The line is the
// kubelet's; runtimes have since taken to a curve, for the groups of containers.
func cpuWeight(shares int64) uint64 {
	const leastShares, mostShares, mostWeight = cri.MinCPUShares, 262144, 10000
	shares = min(max(shares, leastShares), mostShares)
	return uint64(1 + (shares-leastShares)*(mostWeight-1)/(mostShares-leastShares))
}

// limitsPIDs says whether a group can limit processes. In the unified hierarchy there is a directory whether or not it can.
func limitsPIDs(dir string) bool {
	return dir != "" && anyExists(map[string]string{"": filepath.Join(dir, "pids.max")})
}

// hugePages limits the pages of each size that the group can be limited in. They are not given out unless they are asked for.
func hugePages(dir string, limits []host.HugePageLimit) []*cgroups.HugepageLimit {
	if dir == "" {
		return nil
	}
	var out []*cgroups.HugepageLimit
	for _, size := range cgroups.HugePageSizes() {
		if !anyExists(map[string]string{
			"v1": filepath.Join(dir, "hugetlb."+size+".limit_in_bytes"), "v2": filepath.Join(dir, "hugetlb."+size+".max"),
		}) {
			continue
		}
		limit := &cgroups.HugepageLimit{Pagesize: size}
		for _, l := range limits {
			if cri.HugePageName(l.PageBytes) == size {
				limit.Limit = uint64(max(l.Bytes, 0))
			}
		}
		out = append(out, limit)
	}
	return out
}

func orUnlimited(limit int64) int64 {
	if limit <= 0 {
		return unlimited
	}
	return limit
}

// Remove kills what is left in the group of a pod, whichever class it has, and removes it. Missing is success.
func (m *Manager) Remove(uid types.UID) error {
	var errs []error
	for _, class := range classes {
		errs = append(errs, m.remove(ofPod(class, uid)))
	}
	return errors.Join(errs...)
}

func (m *Manager) remove(g group) error {
	cg, err := m.open(g.config(m.driver, &cgroups.Resources{SkipDevices: true}))
	if err != nil {
		return fmt.Errorf("opening control group %s: %w", g.name(m.driver), err)
	}
	if !anyExists(cg.GetPaths()) {
		return nil
	}
	for range removeTries {
		m.killAll(cg)
		if err = cg.Destroy(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("removing control group %s: %w", g.name(m.driver), err)
}

// anyExists says whether the group is there in any hierarchy: a removal may have been cut short.
func anyExists(paths map[string]string) bool {
	for _, path := range paths {
		if _, err := os.Lstat(path); err == nil {
			return true
		}
	}
	return false
}

// killAll kills what is in the group. What cannot be killed shows when the group is removed.
func (m *Manager) killAll(cg cgroups.Manager) {
	pids, err := cg.GetAllPids()
	if err != nil {
		return // the group is partly gone
	}
	for _, pid := range pids {
		_ = m.kill(pid) // it may have ended by itself
	}
}
