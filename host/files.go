// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// MaxHostsFile is the largest hosts file that EnsureHostsFile takes, in bytes.
const MaxHostsFile = 2 << 20

// PodFiles makes files of a pod that are mounted into its containers.
type PodFiles interface {
	// EnsureHostsFile gives the pod's hosts file (0644) this content and returns its path. The file is changed in place, for
	// every container of the pod has it mounted, and only if it has another content.
	EnsureHostsFile(ctx context.Context, uid types.UID, content []byte) (path string, err error)
}
