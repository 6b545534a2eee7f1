// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Sink is the API as the Manager needs it. Errors are classes of github.com/containerd/errdefs. The Manager repeats what
// failed, so every call must be right when it is made again after its answer was lost.
type Sink interface {
	// GetPod reads the pod past every cache. NotFound means that it does not exist.
	GetPod(ctx context.Context, namespace, name string) (*v1.Pod, error)
	// PatchPodStatus applies a strategic merge patch to the status of the pod and returns the pod as it is then. If the
	// pod of that name has another UID, or another resource version than the one that is given, nothing is changed and the
	// error is Conflict. Without a version any will do.
	PatchPodStatus(ctx context.Context, pod types.NamespacedName, uid types.UID, version string, patch []byte) (*v1.Pod, error)
	// DeletePod removes the pod's object without a grace period. If the pod of that name has another UID nothing is
	// removed and the error is Conflict.
	DeletePod(ctx context.Context, pod types.NamespacedName, uid types.UID) error
}
