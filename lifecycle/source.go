// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/lifecycle/image"
	"github.com/tombolo-dev/tombolo/lifecycle/podenv"
	"github.com/tombolo-dev/tombolo/lifecycle/volume"
)

// PodEventType says how the desired state of one pod changed.
type PodEventType int

// The changes a pod source reports. SourceSynced carries no pod: it says once that everything the source knew at its
// first complete list has been delivered. Before it, the absence of a pod proves nothing.
const (
	PodAdded PodEventType = iota
	PodUpdated
	PodReconciled
	PodRemoved
	SourceSynced
)

// String returns the type's name as used in logs.
func (t PodEventType) String() string {
	return [...]string{"added", "updated", "reconciled", "removed", "synced"}[t]
}

// PodEvent is one change of the desired state. The pod is shared and must not be changed.
type PodEvent struct {
	Type PodEventType
	// Pod is the newest version. For PodRemoved it is the last version that was seen.
	Pod *v1.Pod
}

// PodSource says what should run. Pods are told apart by UID: a pod deleted and made again under the same name is
// two pods.
type PodSource interface {
	// Run watches until ctx ends. It retries for ever and never takes a failed list for an empty one.
	Run(ctx context.Context)
	// Events delivers the changes in order: of one snapshot first removals, then additions, updates and reconciles.
	Events() <-chan PodEvent
	// Live reads the pod from the API itself, past every cache. The error is NotFound when it does not exist.
	Live(ctx context.Context, namespace, name string) (*v1.Pod, error)
}

// Objects reads what pods refer to in the API. Each part of the engine declares its own share. Who provides them calls
// Engine.Refresh when something that was read for a pod changed.
type Objects interface {
	image.Secrets
	podenv.Objects
	volume.Objects
	volume.Claims
	volume.TrustBundles
	volume.PodCertificates
	// Forget drops what is kept for a pod that has ended.
	Forget(uid types.UID)
}

// Machine is what the engine needs to know of the remote machine from moment to moment. The answers are those of the
// last poll: no method blocks.
type Machine interface {
	// Facts are the newest known facts, nil before the first answer of the host.
	Facts() *host.Facts
	// RuntimeReady is nil when the runtime last said that it is ready.
	RuntimeReady() error
	// NetworkReady is nil when the runtime last said that pod networks can be made.
	NetworkReady() error
	// HostIPs are the addresses for status.hostIPs, at most one of each family.
	HostIPs() []string
	// ClockOffset is how far the host's clock is ahead of ours.
	ClockOffset() time.Duration
}
