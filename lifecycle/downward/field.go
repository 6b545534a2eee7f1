// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package downward

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Field returns a field of the pod's metadata, by its path in the API. Labels and annotations are either one of them, as
// in metadata.labels['key'], which is empty if there is none, or all of them, one sorted key="value" on a line.
func Field(pod *v1.Pod, path string) (string, error) {
	if of, key, one := subscript(path); one {
		switch of {
		case "metadata.labels":
			return pod.Labels[key], nil
		case "metadata.annotations":
			return pod.Annotations[key], nil
		default:
			return "", fmt.Errorf("fieldPath %q does not support subscript", path)
		}
	}
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return lines(pod.Labels), nil
	case "metadata.annotations":
		return lines(pod.Annotations), nil
	default:
		return "", fmt.Errorf("unsupported fieldPath: %s", path)
	}
}

// subscript splits of['key'].
func subscript(path string) (of, key string, ok bool) {
	inner, closed := strings.CutSuffix(path, "']")
	if !closed {
		return "", "", false
	}
	of, key, ok = strings.Cut(inner, "['")
	return of, key, ok && of != ""
}

func lines(m map[string]string) string {
	out := make([]string, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, key+"="+strconv.Quote(m[key]))
	}
	return strings.Join(out, "\n")
}
