// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The kubelet's bounds on the list of images in the node's status.
const (
	maxImages        = 50
	maxNamesPerImage = 5
)

// images are the largest images for the node's status, largest first, digests before tags. Images without a name are left
// out.
func images(list []*runtimeapi.Image) []v1.ContainerImage {
	sorted := slices.Clone(list)
	slices.SortFunc(sorted, func(a, b *runtimeapi.Image) int {
		return cmp.Or(cmp.Compare(b.GetSize(), a.GetSize()), cmp.Compare(a.GetId(), b.GetId()))
	})
	var out []v1.ContainerImage
	for _, image := range sorted {
		names := slices.Concat(image.GetRepoDigests(), image.GetRepoTags())
		if len(names) == 0 {
			continue
		}
		out = append(out, v1.ContainerImage{
			Names:     names[:min(len(names), maxNamesPerImage)],
			SizeBytes: int64(min(image.GetSize(), 1<<62)),
		})
		if len(out) == maxImages {
			break
		}
	}
	return out
}
