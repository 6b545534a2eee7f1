// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// IDsPerPod is how many user and group ids a pod with a user namespace of its own gets, the kubelet's default. Ranges begin at
// multiples of it, and none with the ids of the machine's own users.
const IDsPerPod = 1 << 16

// IDRange is a range of user and group ids of the host.
type IDRange struct {
	First  uint32
	Length uint32
}

// UserNamespaces gives pods ids of their own.
type UserNamespaces interface {
	// EnsureIDRange returns the pod's range, which no other pod of the host has. It is chosen by the first call, is on disk when
	// it returns, and is free again when RemovePod has removed the pod. ResourceExhausted: there is none left.
	EnsureIDRange(ctx context.Context, uid types.UID) (IDRange, error)
}
