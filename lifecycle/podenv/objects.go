// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podenv

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

// Objects reads what variables refer to. What it returns is shared and must not be changed. An error of class NotFound says
// that the API has no such object; any other, but that of ctx, that it could not be read. The caller repeats. A read may
// wait for a few seconds.
type Objects interface {
	// ConfigMap returns a ConfigMap of the pod's namespace.
	ConfigMap(ctx context.Context, pod *v1.Pod, name string) (*v1.ConfigMap, error)
	// Secret returns a Secret of the pod's namespace.
	Secret(ctx context.Context, pod *v1.Pod, name string) (*v1.Secret, error)
	// Services returns the Services of a namespace.
	Services(ctx context.Context, namespace string) ([]*v1.Service, error)
}
