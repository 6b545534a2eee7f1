// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podcgroup

import (
	"path"
	"strings"

	"github.com/opencontainers/cgroups"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// DriverSystemd is the cgroup driver that goes through systemd, as CRI's name of it in lower case. Any other writes files.
const DriverSystemd = "systemd"

// root is the group of ours that holds all others. It is not the kubelet's "kubepods", so that a kubelet on the same machine,
// which removes what it does not know from there, and ours leave each other alone.
const root = "tombolo"

// kubepods is the name of the group of all pods, the kubelet's own.
const kubepods = "kubepods"

// group is the path of a control group: each element is one level.
type group []string

// tier is the group of a class: guaranteed pods have none of their own.
func tier(class v1.PodQOSClass) group {
	g := group{root, kubepods}
	if class == v1.PodQOSGuaranteed {
		return g
	}
	return append(g, strings.ToLower(string(class)))
}

// ofPod is the group of a pod.
func ofPod(class v1.PodQOSClass, uid types.UID) group {
	return append(tier(class), "pod"+string(uid))
}

// name is the group's name as the runtime takes it for a parent: a path, or for systemd the name of a slice, which
// holds all levels and in which a dash separates them.
func (g group) name(driver string) string {
	if driver != DriverSystemd {
		return "/" + path.Join(g...)
	}
	return g.slice()
}

func (g group) slice() string {
	levels := make([]string, len(g))
	for i, level := range g {
		levels[i] = strings.ReplaceAll(level, "-", "_")
	}
	return strings.Join(levels, "-") + ".slice"
}

// config names the group for the library.
func (g group) config(driver string, resources *cgroups.Resources) *cgroups.Cgroup {
	if driver != DriverSystemd {
		return &cgroups.Cgroup{Path: g.name(driver), Resources: resources}
	}
	parent := "-.slice" // the root
	if len(g) > 1 {
		parent = g[:len(g)-1].slice()
	}
	return &cgroups.Cgroup{Systemd: true, Name: g.slice(), Parent: parent, Resources: resources}
}
