// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// ReasonUnsupportedUpdate is the reason of warnings about changes to a running pod that this node does not follow.
const ReasonUnsupportedUpdate = "UnsupportedPodUpdate"

// Problem is a change to a running pod that has no effect. It is told by a warning; the pod runs on as it is.
type Problem struct {
	Reason  string
	Field   string
	Message string
}

// CheckUpdate returns what the change from old to new asks for in vain. What was unsupported before and did not change
// is not told again.
func CheckUpdate(old, updated *v1.Pod) []Problem {
	var out []Problem
	before := map[string]any{}
	for _, v := range violations(old) {
		before[v.path] = v.value
	}
	for _, v := range violations(updated) {
		if was, known := before[v.path]; known && equality.Semantic.DeepEqual(was, v.value) {
			continue
		}
		out = append(out, problem(v.path, v.note))
	}
	out = append(out, resized("spec.initContainers", old.Spec.InitContainers, updated.Spec.InitContainers)...)
	return append(out, resized("spec.containers", old.Spec.Containers, updated.Spec.Containers)...)
}

// resized finds containers whose resources changed. Containers of a pod never come or go, nor change their order.
func resized(path string, old, updated []v1.Container) []Problem {
	var out []Problem
	for i := range min(len(old), len(updated)) {
		if !equality.Semantic.DeepEqual(old[i].Resources, updated[i].Resources) {
			out = append(out, problem(fmt.Sprintf("%s[%d].resources", path, i),
				"containers are not resized in place; delete the pod and create it with the new resources"))
		}
	}
	return out
}

func problem(field, note string) Problem {
	return Problem{
		Reason: ReasonUnsupportedUpdate, Field: field,
		Message: fmt.Sprintf("the change of %s has no effect on this node: %s", field, note),
	}
}
