// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// pageSize returns the size, in bytes, of the pages that an emptyDir of huge pages is made of: that which the medium names or, if it
// names none, the only one that containers of the pod request. Messages are the kubelet's.
func pageSize(pod *v1.Pod, medium v1.StorageMedium) (int64, error) {
	named, sized := strings.CutPrefix(string(medium), string(v1.StorageMediumHugePagesPrefix))
	if medium != v1.StorageMediumHugePages && !sized {
		return 0, fmt.Errorf("unknown storage medium %q", medium)
	}
	var wanted, found int64
	if sized {
		size, err := resource.ParseQuantity(named)
		if err != nil {
			return 0, fmt.Errorf("unknown storage medium %q: %w", medium, err)
		}
		wanted = size.Value()
	}
	for size := range requestedPages(pod) {
		if wanted == 0 && found != 0 && found != size {
			return 0, fmt.Errorf("medium: %s can't be used if container requests multiple huge page sizes", medium)
		}
		if wanted == 0 || wanted == size {
			found = size
		}
	}
	if found == 0 {
		return 0, fmt.Errorf("medium %s: hugePages storage requested, but there is no resource request for huge pages", medium)
	}
	return found, nil
}

// requestedPages are the sizes of huge pages that containers of the pod, or the pod as a whole, request.
func requestedPages(pod *v1.Pod) map[int64]struct{} {
	out := map[int64]struct{}{}
	add := func(list v1.ResourceList) {
		for name := range list {
			size, is := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix)
			if bytes, err := resource.ParseQuantity(size); is && err == nil {
				out[bytes.Value()] = struct{}{}
			}
		}
	}
	for _, c := range podrules.Containers(pod) {
		add(c.Resources.Requests)
	}
	if pod.Spec.Resources != nil {
		add(pod.Spec.Resources.Requests)
	}
	return out
}
