// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podref

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// New refers to a pod of which only the identity is known.
func New(namespace, name string, uid types.UID) *v1.ObjectReference {
	return &v1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: namespace, Name: name, UID: uid}
}

// Pod refers to the pod.
func Pod(pod *v1.Pod) *v1.ObjectReference {
	ref := New(pod.Namespace, pod.Name, pod.UID)
	ref.ResourceVersion = pod.ResourceVersion
	return ref
}

// Container refers to the named container of the pod, or to the pod itself if its spec has no such container.
func Container(pod *v1.Pod, name string) *v1.ObjectReference {
	ref := Pod(pod)
	ref.FieldPath = fieldPath(&pod.Spec, name)
	return ref
}

func fieldPath(spec *v1.PodSpec, name string) string {
	for i := range spec.Containers {
		if spec.Containers[i].Name == name {
			return "spec.containers{" + name + "}"
		}
	}
	for i := range spec.InitContainers {
		if spec.InitContainers[i].Name == name {
			return "spec.initContainers{" + name + "}"
		}
	}
	for i := range spec.EphemeralContainers {
		if spec.EphemeralContainers[i].Name == name {
			return "spec.ephemeralContainers{" + name + "}"
		}
	}
	return ""
}
