// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"crypto/sha256"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// fsGroup is the group that owns the pod's volumes, nil if there is none.
func fsGroup(pod *v1.Pod) *int64 {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	return pod.Spec.SecurityContext.FSGroup
}

// soleUser is the user that every container of the pod is set to run as, nil if they differ or leave it to their image.
func soleUser(pod *v1.Pod) *int64 {
	var sole *int64
	for _, c := range podrules.Containers(pod) {
		own := c.SecurityContext
		var user *int64
		if pod.Spec.SecurityContext != nil {
			user = pod.Spec.SecurityContext.RunAsUser
		}
		if own != nil && own.RunAsUser != nil {
			user = own.RunAsUser
		}
		if user == nil || sole != nil && *sole != *user {
			return nil
		}
		sole = user
	}
	return sole
}

// memorySize is how large a volume in memory may become, in bytes: no larger than the least of what the node can give, the
// pod's memory limit and the volume's own limit. Zero, as long as nothing is known, is the kernel's default.
func memorySize(pod *v1.Pod, own *resource.Quantity, allocatable v1.ResourceList) int64 {
	size := allocatable.Memory().Value()
	for _, limit := range []int64{podMemoryLimit(pod), quantity(own)} {
		if limit > 0 && (size == 0 || limit < size) {
			size = limit
		}
	}
	return size
}

func quantity(q *resource.Quantity) int64 {
	if q == nil {
		return 0
	}
	return q.Value()
}

// podMemoryLimit is the memory limit of the pod as a whole: its own, or the sum of its containers' if each has one, else zero.
func podMemoryLimit(pod *v1.Pod) int64 {
	if r := pod.Spec.Resources; r != nil && !r.Limits.Memory().IsZero() {
		return r.Limits.Memory().Value()
	}
	unlimited := func(c v1.Container) bool { return c.Resources.Limits.Memory().IsZero() }
	if slices.ContainsFunc(pod.Spec.Containers, unlimited) || slices.ContainsFunc(pod.Spec.InitContainers, unlimited) {
		return 0
	}
	total := resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})
	return total.Memory().Value()
}

// digest tells file sets apart.
type digest [sha256.Size]byte

// digestOf depends on everything that the host makes of a file set when it has it already.
func digestOf(set host.FileSet) digest {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %v %q\n", set.Kind, number(set.FSGroup), set.MountPoints)
	for _, f := range set.Files {
		fmt.Fprintf(sum, "%q %o %v %d\n", f.Path, f.Mode, number(f.User), len(f.Data))
		sum.Write(f.Data)
	}
	return digest(sum.Sum(nil))
}

// number is the number of a user or group in a digest.
func number(id *int64) int64 {
	if id == nil {
		return -1
	}
	return *id
}
