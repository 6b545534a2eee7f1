// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podrules

import (
	"iter"

	v1 "k8s.io/api/core/v1"
)

// ContainerKind tells the kinds of a pod's containers apart.
type ContainerKind int

// The kinds of containers. NoContainer is that of a name the pod's spec does not have.
const (
	NoContainer ContainerKind = iota
	InitContainer
	Sidecar
	RegularContainer
	EphemeralContainer
)

// Containers walks through all containers of the pod: init containers (sidecars among them), regular ones, ephemeral ones,
// each in the order of the spec. The containers are the pod's own.
func Containers(pod *v1.Pod) iter.Seq2[ContainerKind, *v1.Container] {
	return func(yield func(ContainerKind, *v1.Container) bool) {
		for i := range pod.Spec.InitContainers {
			c, kind := &pod.Spec.InitContainers[i], InitContainer
			if IsSidecar(c) {
				kind = Sidecar
			}
			if !yield(kind, c) {
				return
			}
		}
		for i := range pod.Spec.Containers {
			if !yield(RegularContainer, &pod.Spec.Containers[i]) {
				return
			}
		}
		for i := range pod.Spec.EphemeralContainers {
			if !yield(EphemeralContainer, AsContainer(&pod.Spec.EphemeralContainers[i])) {
				return
			}
		}
	}
}

// Find returns the named container of the pod and its kind, nil and NoContainer if there is none.
func Find(pod *v1.Pod, name string) (*v1.Container, ContainerKind) {
	for kind, c := range Containers(pod) {
		if c.Name == name {
			return c, kind
		}
	}
	return nil, NoContainer
}

// AsContainer returns the ephemeral container as an ordinary one. It is the same memory.
func AsContainer(ec *v1.EphemeralContainer) *v1.Container {
	return (*v1.Container)(&ec.EphemeralContainerCommon)
}
