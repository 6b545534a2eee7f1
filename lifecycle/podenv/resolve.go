// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podenv

import (
	"context"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Input is what the environment of a container is made of.
type Input struct {
	Pod       *v1.Pod
	Container *v1.Container
	Objects   Objects
	Files     Files
	// PodIPs are the pod's addresses and HostIPs those of the node, the primary ones first.
	PodIPs, HostIPs []string
	// Node is the node as last known, nil if it is not.
	Node *v1.Node
}

// Output is what the runtime gets. Command and Args are nil if the definition has none, so that the image's own are used.
type Output struct {
	Env           []*runtimeapi.KeyValue
	Command, Args []string
}

// Resolve makes the environment, command and arguments of a container. Of variables with the same name the last definition
// counts, at the place of the first: those of envFrom come first, sorted by name within each source, then those of env, then
// those that announce Services.
//
// The text of an error is the kubelet's and says what is missing, as the message of CreateContainerConfigError. Its class
// is that of the Objects, if it comes from them. It is the error of ctx if that ended.
func Resolve(ctx context.Context, in Input) (*Output, error) {
	links, err := serviceVariables(ctx, in.Pod, in.Objects)
	if err != nil {
		return nil, err
	}
	r := &resolver{
		Input: in, configMaps: map[string]*v1.ConfigMap{}, secrets: map[string]*v1.Secret{}, links: links, values: map[string]string{},
		files: map[[2]string][]byte{},
	}
	if err := r.envFrom(ctx); err != nil {
		return nil, err
	}
	if err := r.env(ctx); err != nil {
		return nil, err
	}
	out := &Output{Command: r.expandAll(in.Container.Command), Args: r.expandAll(in.Container.Args)}
	for _, name := range slices.Sorted(maps.Keys(links)) {
		if _, own := r.values[name]; !own {
			r.set(name, links[name])
		}
	}
	for _, name := range r.names {
		out.Env = append(out.Env, &runtimeapi.KeyValue{Key: name, Value: []byte(r.values[name])})
	}
	return out, nil
}

// resolver resolves the environment of one container.
type resolver struct {
	Input
	// configMaps and secrets are those that were read: all variables see the same version.
	configMaps map[string]*v1.ConfigMap
	secrets    map[string]*v1.Secret
	// files are those that were read, by volume and path.
	files map[[2]string][]byte
	// links are the variables that announce Services.
	links map[string]string
	// values are the variables so far, and names their order.
	values map[string]string
	names  []string
}

func (r *resolver) set(name, value string) {
	if _, again := r.values[name]; !again {
		r.names = append(r.names, name)
	}
	r.values[name] = value
}

// envFrom takes whole objects. Any key of theirs names a variable.
func (r *resolver) envFrom(ctx context.Context) error {
	for i := range r.Container.EnvFrom {
		from := &r.Container.EnvFrom[i]
		switch {
		case from.ConfigMapRef != nil:
			m, err := r.configMap(ctx, from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
			if err != nil {
				return err
			}
			if m != nil {
				takeAll(r, from.Prefix, m.Data)
			}
		case from.SecretRef != nil:
			s, err := r.secret(ctx, from.SecretRef.Name, from.SecretRef.Optional)
			if err != nil {
				return err
			}
			if s != nil {
				takeAll(r, from.Prefix, s.Data)
			}
		}
	}
	return nil
}

func takeAll[V string | []byte](r *resolver, prefix string, data map[string]V) {
	for _, key := range slices.Sorted(maps.Keys(data)) {
		r.set(prefix+key, string(data[key]))
	}
}

// env takes the single variables. A literal value sees those defined before it, its own earlier definition included.
func (r *resolver) env(ctx context.Context) error {
	for i := range r.Container.Env {
		v := &r.Container.Env[i]
		value, found := "", true
		switch {
		case v.Value != "":
			value = Expand(v.Value, r.values, r.links)
		case v.ValueFrom != nil:
			var err error
			if value, found, err = r.valueFrom(ctx, v.ValueFrom); err != nil {
				return err
			}
		}
		if found {
			r.set(v.Name, value)
		}
	}
	return nil
}

func (r *resolver) expandAll(in []string) []string {
	if len(in) == 0 {
		return nil
	}
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = Expand(s, r.values, r.links)
	}
	return out
}
