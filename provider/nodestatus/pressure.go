// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/host"
)

// The kubelet's default hard eviction thresholds. There is none for process ids, so a node never claims PIDPressure.
const (
	evictMemoryBytes     = 100 << 20
	evictNodefsFraction  = 0.10
	evictImagefsFraction = 0.15
	evictInodesFraction  = 0.05
)

// pressureHold is the kubelet's evictionPressureTransitionPeriod: how long pressure is reported after it was last seen.
const pressureHold = 5 * time.Minute

// The purposes of file systems in host.Facts.
const (
	nodefs  = "nodefs"
	imagefs = "imagefs"
)

// filesystem finds a file system of known size by its purpose.
func filesystem(f *host.Facts, purpose string) *host.Filesystem {
	for i := range f.Filesystems {
		if fs := &f.Filesystems[i]; fs.Purpose == purpose && fs.CapacityBytes > 0 {
			return fs
		}
	}
	return nil
}

// underPressure says which conditions hold by the facts alone. What the host does not know is no pressure.
func underPressure(f *host.Facts) map[v1.NodeConditionType]bool {
	return map[v1.NodeConditionType]bool{
		v1.NodeMemoryPressure: f.MemoryBytes > 0 && f.MemoryAvailable > 0 && f.MemoryAvailable < evictMemoryBytes,
		v1.NodeDiskPressure: scarce(filesystem(f, nodefs), evictNodefsFraction) ||
			scarce(filesystem(f, imagefs), evictImagefsFraction),
		v1.NodePIDPressure: false,
	}
}

func scarce(fs *host.Filesystem, fraction float64) bool {
	return fs != nil && (float64(fs.AvailableBytes) < fraction*float64(fs.CapacityBytes) ||
		float64(fs.InodesAvailable) < evictInodesFraction*float64(fs.Inodes))
}

// pressures remembers when pressure was last seen. Each fact is looked at once, so that stale ones do not prolong it.
type pressures struct {
	facts *host.Facts
	seen  map[v1.NodeConditionType]time.Time
}

// observe takes new facts into account.
func (p *pressures) observe(f *host.Facts, now time.Time) {
	if f == nil || f == p.facts {
		return
	}
	p.facts = f
	for kind, holds := range underPressure(f) {
		if holds {
			if p.seen == nil {
				p.seen = map[v1.NodeConditionType]time.Time{}
			}
			p.seen[kind] = now
		}
	}
}

// holds says whether the condition is to be reported.
func (p *pressures) holds(kind v1.NodeConditionType, now time.Time) bool {
	seen, ok := p.seen[kind]
	return ok && now.Sub(seen) < pressureHold
}
