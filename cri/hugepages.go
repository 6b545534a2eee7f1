// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// HugePageSize returns the size in bytes of the huge pages that a resource is of; ok is false if it is of none.
func HugePageSize(name v1.ResourceName) (size int64, ok bool) {
	text, ok := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix)
	if !ok {
		return 0, false
	}
	q, err := resource.ParseQuantity(text)
	return q.Value(), err == nil && q.Value() > 0
}

// HugePageName is the kernel's name of a size of huge pages, such as 2MB for 2 MiB.
func HugePageName(size int64) string {
	units := []string{"B", "KB", "MB", "GB", "TB", "PB"}
	for len(units) > 1 && size >= 1024 && size%1024 == 0 {
		size, units = size/1024, units[1:]
	}
	return strconv.FormatInt(size, 10) + units[0]
}

// HugePageResource is the resource of huge pages of a size in bytes.
func HugePageResource(size int64) v1.ResourceName {
	return v1.ResourceName(v1.ResourceHugePagesPrefix + resource.NewQuantity(size, resource.BinarySI).String())
}

// HugePageAmount is an amount of huge pages. Both are bytes.
type HugePageAmount struct {
	Size  int64
	Bytes int64
}

// HugePages are the amounts of huge pages in a list, ordered by size.
func HugePages(list v1.ResourceList) []HugePageAmount {
	var out []HugePageAmount
	for name, q := range list {
		if size, ok := HugePageSize(name); ok {
			out = append(out, HugePageAmount{Size: size, Bytes: q.Value()})
		}
	}
	slices.SortFunc(out, func(a, b HugePageAmount) int { return cmp.Compare(a.Size, b.Size) })
	return out
}

// hugePageLimits has an entry for each size of pages of the machine: nothing unless the container asks for it, or its pod
// does and the container leaves it open.
func hugePageLimits(in ContainerInput) []*runtimeapi.HugepageLimit {
	limits := map[int64]int64{}
	if resourcehelper.IsPodLevelResourcesSet(in.Pod) {
		for _, a := range HugePages(in.Pod.Spec.Resources.Limits) {
			limits[a.Size] = a.Bytes
		}
	}
	for _, a := range HugePages(in.Container.Resources.Limits) {
		limits[a.Size] = a.Bytes
	}
	var out []*runtimeapi.HugepageLimit
	for _, size := range in.HugePageSizes {
		limit := max(limits[size], 0)
		out = append(out, &runtimeapi.HugepageLimit{PageSize: HugePageName(size), Limit: uint64(limit)})
	}
	return out
}
