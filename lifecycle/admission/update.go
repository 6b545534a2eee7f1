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
	return out
}

func problem(field, note string) Problem {
	return Problem{
		Reason: ReasonUnsupportedUpdate, Field: field,
		Message: fmt.Sprintf("the change of %s has no effect on this node: %s", field, note),
	}
}
