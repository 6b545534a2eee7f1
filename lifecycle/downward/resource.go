// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package downward

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Resource returns a resource of a container in multiples of the reference's divisor, rounded up. The container is the one
// that the reference names or else own, the one it stands in. A limit of CPU, memory or local storage that the container
// has not is that of the pod as a whole or, if it has none either, what the node can give, its allocatable resources.
func Resource(pod *v1.Pod, own *v1.Container, ref *v1.ResourceFieldSelector, allocatable v1.ResourceList) (string, error) {
	c, err := containerOf(pod, own, ref.ContainerName)
	if err != nil {
		return "", err
	}
	list, text, _ := strings.Cut(ref.Resource, ".")
	name := v1.ResourceName(text)
	if !told(name) {
		return "", fmt.Errorf("unsupported container resource : %s", ref.Resource)
	}
	switch list {
	case "requests":
		return multiples(c.Resources.Requests[name], name, ref.Divisor), nil
	case "limits":
		return multiples(limit(pod, c, name, allocatable), name, ref.Divisor), nil
	default:
		return "", fmt.Errorf("unsupported container resource : %s", ref.Resource)
	}
}

func containerOf(pod *v1.Pod, own *v1.Container, name string) (*v1.Container, error) {
	if name == "" && own != nil {
		return own, nil
	}
	for _, containers := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			if containers[i].Name == name {
				return &containers[i], nil
			}
		}
	}
	return nil, fmt.Errorf("container %s not found", name)
}

// told says whether the downward API tells of the resource.
func told(name v1.ResourceName) bool {
	return defaulted(name) || strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
}

// defaulted says whether a container without a limit of the resource may use what there is.
func defaulted(name v1.ResourceName) bool {
	return name == v1.ResourceCPU || name == v1.ResourceMemory || name == v1.ResourceEphemeralStorage
}

func limit(pod *v1.Pod, c *v1.Container, name v1.ResourceName, allocatable v1.ResourceList) resource.Quantity {
	own := c.Resources.Limits[name]
	if !own.IsZero() || !defaulted(name) {
		return own
	}
	if pod.Spec.Resources != nil && name != v1.ResourceEphemeralStorage {
		if whole := pod.Spec.Resources.Limits[name]; !whole.IsZero() {
			return whole
		}
	}
	return allocatable[name]
}

// multiples returns how many divisors make up the quantity. CPU is counted in thousandths, everything else in ones.
func multiples(q resource.Quantity, name v1.ResourceName, divisor resource.Quantity) string {
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	amount, by := q.Value(), divisor.Value()
	if name == v1.ResourceCPU {
		amount, by = q.MilliValue(), divisor.MilliValue()
	}
	n := amount / by
	if amount%by > 0 {
		n++
	}
	return strconv.FormatInt(n, 10)
}
