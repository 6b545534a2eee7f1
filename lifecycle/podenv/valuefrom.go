// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podenv

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/lifecycle/downward"
)

// valueFrom returns the value that a variable takes from elsewhere. found is false if it may be missing and is.
func (r *resolver) valueFrom(ctx context.Context, from *v1.EnvVarSource) (value string, found bool, err error) {
	switch {
	case from.FieldRef != nil:
		value, err = r.field(from.FieldRef.FieldPath)
		return value, true, err
	case from.ResourceFieldRef != nil:
		if r.Node == nil {
			return "", false, errors.New("failed to find node object, expected a node")
		}
		value, err = downward.Resource(r.Pod, r.Container, from.ResourceFieldRef, r.Node.Status.Allocatable)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		return r.configMapKey(ctx, from.ConfigMapKeyRef)
	case from.SecretKeyRef != nil:
		return r.secretKey(ctx, from.SecretKeyRef)
	case from.FileKeyRef != nil:
		return r.fileKey(ctx, from.FileKeyRef)
	default:
		return "", true, nil
	}
}

// field returns a field of the pod. What only the node knows is taken from there: the pod's status may not show it yet.
func (r *resolver) field(path string) (string, error) {
	switch path {
	case "spec.nodeName", "spec.host":
		return r.Pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return r.Pod.Spec.ServiceAccountName, nil
	case "status.podIP":
		return first(r.PodIPs), nil
	case "status.podIPs":
		return strings.Join(r.PodIPs, ","), nil
	case "status.hostIP", "status.hostIPs":
		if len(r.HostIPs) == 0 {
			return "", errors.New("the addresses of the node are not known yet")
		}
		if path == "status.hostIP" {
			return first(r.HostIPs), nil
		}
		return strings.Join(r.HostIPs, ","), nil
	default:
		return downward.Field(r.Pod, path)
	}
}

func first(ips []string) string {
	if len(ips) == 0 {
		return ""
	}
	return ips[0]
}

func (r *resolver) configMapKey(ctx context.Context, ref *v1.ConfigMapKeySelector) (value string, found bool, err error) {
	m, err := r.configMap(ctx, ref.Name, ref.Optional)
	if err != nil || m == nil {
		return "", false, err
	}
	value, found = m.Data[ref.Key]
	if !found && !ptr.Deref(ref.Optional, false) {
		return "", false, fmt.Errorf("couldn't find key %v in ConfigMap %v/%v", ref.Key, r.Pod.Namespace, ref.Name)
	}
	return value, found, nil
}

func (r *resolver) secretKey(ctx context.Context, ref *v1.SecretKeySelector) (value string, found bool, err error) {
	s, err := r.secret(ctx, ref.Name, ref.Optional)
	if err != nil || s == nil {
		return "", false, err
	}
	bytes, found := s.Data[ref.Key]
	if !found && !ptr.Deref(ref.Optional, false) {
		return "", false, fmt.Errorf("couldn't find key %v in Secret %v/%v", ref.Key, r.Pod.Namespace, ref.Name)
	}
	return string(bytes), found, nil
}

// configMap reads a ConfigMap, once for all variables. It is nil if it may be missing and is.
func (r *resolver) configMap(ctx context.Context, name string, optional *bool) (*v1.ConfigMap, error) {
	return read(ctx, r.Pod, name, optional, r.configMaps, r.Objects.ConfigMap)
}

// secret reads a Secret in the same way.
func (r *resolver) secret(ctx context.Context, name string, optional *bool) (*v1.Secret, error) {
	return read(ctx, r.Pod, name, optional, r.secrets, r.Objects.Secret)
}

func read[T any](
	ctx context.Context, pod *v1.Pod, name string, optional *bool, before map[string]*T,
	get func(context.Context, *v1.Pod, string) (*T, error),
) (*T, error) {
	if object, ok := before[name]; ok {
		return object, nil
	}
	object, err := get(ctx, pod, name)
	if err != nil {
		if errdefs.IsNotFound(err) && ptr.Deref(optional, false) {
			return nil, nil
		}
		return nil, err
	}
	before[name] = object
	return object, nil
}
