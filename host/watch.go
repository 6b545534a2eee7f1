// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// WatchRequest says which pods to watch and how.
type WatchRequest struct {
	// Labels select the sandboxes and containers that are looked at: those of one node of one cluster.
	Labels map[string]string
	// DigestPeriod is how often a digest is sent when nothing changes.
	DigestPeriod time.Duration
}

// PodsChanged tells which pods changed in the runtime since the message before it. The first one of a watch names every
// pod the runtime has, and every message is complete: what it does not name is as it was.
type PodsChanged struct {
	// UIDs are the pods of which a sandbox or container appeared, vanished or changed its state.
	UIDs []types.UID
	// Digests are PodsDigest of what each of those pods has after the change, which is nothing if the pod is gone. It is empty if
	// the host is of a version that does not tell them.
	Digests []uint64
	// Digest is PodsDigest of everything there is after the change. A node whose own picture has another digest has missed
	// something and looks at everything anew.
	Digest uint64
}

// PodWatcher looks at the runtime from beside it, so that an idle link is quiet.
type PodWatcher interface {
	// WatchPods relists next to the runtime and calls changed, one call at a time, for the first complete list, for every
	// change and with every digest. It returns when ctx ends, when the link or the runtime fails (Unavailable) or with the
	// error of changed. Unimplemented means that the host cannot watch.
	WatchPods(ctx context.Context, req WatchRequest, changed func(PodsChanged) error) error
}

// ObjectState is a sandbox or container and the state a list of the runtime told of it.
type ObjectState struct {
	ID string
	// State is the number of the CRI's state: of PodSandboxState or ContainerState.
	State int32
}

// PodsDigest returns a number that two sides share if they see the same objects in the same states, in whatever order. It
// sorts the slice. The result is stable across versions.
func PodsDigest(objects []ObjectState) uint64 {
	slices.SortFunc(objects, func(a, b ObjectState) int { return strings.Compare(a.ID, b.ID) })
	h := fnv.New64a()
	for _, o := range objects {
		fmt.Fprintf(h, "%s=%d\n", o.ID, o.State)
	}
	return h.Sum64()
}
