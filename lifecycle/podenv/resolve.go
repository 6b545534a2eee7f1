// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podenv

import (
	"fmt"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Resolve returns the container's environment, command and arguments as the runtime gets them. Of variables with the
// same name the last definition counts, at the place of the first. Command and arguments are nil if the definition has
// none, so that the image's own are used.
//
// An error is of class NotImplemented and names the field that cannot be resolved; it is the user's to mend.
func Resolve(pod *v1.Pod, container *v1.Container) (env []*runtimeapi.KeyValue, command, args []string, err error) {
	if len(container.EnvFrom) > 0 {
		return nil, nil, nil, unsupported(pod, container, "envFrom")
	}
	values := make(map[string]string, len(container.Env))
	position := make(map[string]int, len(container.Env))
	for i, v := range container.Env {
		if v.ValueFrom != nil {
			return nil, nil, nil, unsupported(pod, container, fmt.Sprintf("env[%d].valueFrom", i))
		}
		// A variable sees those defined before it, and the earlier definition of itself.
		values[v.Name] = Expand(v.Value, values)
		if at, again := position[v.Name]; again {
			env[at].Value = []byte(values[v.Name])
			continue
		}
		position[v.Name] = len(env)
		env = append(env, &runtimeapi.KeyValue{Key: v.Name, Value: []byte(values[v.Name])})
	}
	return env, expandAll(container.Command, values), expandAll(container.Args, values), nil
}

func expandAll(in []string, values map[string]string) []string {
	if len(in) == 0 {
		return nil
	}
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = Expand(s, values)
	}
	return out
}

func unsupported(pod *v1.Pod, container *v1.Container, field string) error {
	return fmt.Errorf("resolving the environment of container %q in pod \"%s/%s\": %s is not supported, use literal values: %w",
		container.Name, pod.Namespace, pod.Name, field, errdefs.ErrNotImplemented)
}
