// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"fmt"
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// mountPoints returns the directories that a volume needs because something else is mounted below it in some container: a
// volume that is mounted read-only gets none otherwise. They are relative to the volume, the outermost only.
func mountPoints(spec *v1.PodSpec, volume string) ([]string, error) {
	var out []string
	for _, mounts := range volumeMounts(spec) {
		paths := make([]string, len(mounts))
		for i := range mounts {
			paths[i] = path.Clean(mounts[i].MountPath)
		}
		sorted := slices.Sorted(slices.Values(paths))
		for i := range mounts {
			if mounts[i].Name != volume {
				continue
			}
			if strings.HasPrefix(paths[i], "../") {
				return nil, fmt.Errorf("invalid container mount point %v", paths[i])
			}
			out = append(out, outermost(sorted, paths[i]+"/")...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// outermost returns, without the prefix, those of the paths that have it, but none that is below another one of them.
func outermost(sorted []string, prefix string) []string {
	var out []string
	for _, p := range sorted {
		rel, below := strings.CutPrefix(p, prefix)
		nested := func(o string) bool { return strings.HasPrefix(rel, o+"/") || rel == o }
		if below && rel != "" && !slices.ContainsFunc(out, nested) {
			out = append(out, rel)
		}
	}
	return out
}

// volumeMounts returns the mounts of each container.
func volumeMounts(spec *v1.PodSpec) [][]v1.VolumeMount {
	var out [][]v1.VolumeMount
	for i := range spec.InitContainers {
		out = append(out, spec.InitContainers[i].VolumeMounts)
	}
	for i := range spec.Containers {
		out = append(out, spec.Containers[i].VolumeMounts)
	}
	for i := range spec.EphemeralContainers {
		out = append(out, spec.EphemeralContainers[i].VolumeMounts)
	}
	return out
}
