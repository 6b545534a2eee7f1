// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// UpdateType says why a pod needs work.
type UpdateType int

// The reasons for work. Sync is a wake-up without news; Kill ends the pod.
const (
	Create UpdateType = iota
	Change
	Sync
	Kill
)

// String returns the kubelet's name of the operation, as in kubelet_pod_worker_duration_seconds.
func (t UpdateType) String() string {
	return [...]string{"create", "update", "sync", "kill"}[t]
}

// RuntimePod is a pod that the runtime has and the API has not: everything known of it was read from its labels and
// annotations.
type RuntimePod struct {
	UID       types.UID
	Namespace string
	Name      string
}

// Update asks for work on one pod.
type Update struct {
	Type UpdateType
	// Pod is the newest spec. It is shared and must not be changed. It is nil only for an orphan.
	Pod *v1.Pod
	// Runtime names an orphan; only with type Kill. If a worker knows the pod's spec, that is used instead.
	Runtime *RuntimePod
	// Grace overrides the grace period of a Kill; it can only shorten.
	Grace *time.Duration

	// done is closed when no container of the pod runs any more.
	done chan struct{}
}

// ended says that the API already has a terminal phase of the pod.
func (u *Update) ended() bool { return u.Pod != nil && podrules.Terminal(u.Pod.Status.Phase) }

func (u *Update) orphan() bool { return u.Pod == nil && u.Runtime != nil }

func (u *Update) uid() types.UID {
	if u.Pod != nil {
		return u.Pod.UID
	}
	return u.Runtime.UID
}

// Steps are what is done for a pod. The context of a step ends when the pod's situation changed so that the step should
// return early, or the process stops. A step is called again until it returns no error; every step must be
// idempotent. status is an observation newer than what the steps before it may have changed.
type Steps interface {
	// SyncPod brings the pod closer to its spec.
	SyncPod(ctx context.Context, u UpdateType, pod *v1.Pod, status *cri.PodStatus) (Outcome, error)
	// SyncTerminatingPod stops every container by the deadline. No error means that none is running any more, as an observation
	// shows that is newer than all that was done.
	SyncTerminatingPod(ctx context.Context, pod *v1.Pod, status *cri.PodStatus, deadline time.Time) error
	// SyncTerminatingRuntimePod does the same for an orphan.
	SyncTerminatingRuntimePod(ctx context.Context, pod *RuntimePod, deadline time.Time) error
	// SyncTerminatedPod releases what the pod holds and makes its status final.
	SyncTerminatedPod(ctx context.Context, pod *v1.Pod, status *cri.PodStatus) error
}

// Outcome is how a sync without an error ended.
type Outcome struct {
	// Terminal says that the pod ended by itself and shall be terminated. Begun is when an earlier process began with that, zero
	// if none did: the pod's grace period runs since.
	Terminal bool
	Begun    time.Time
	// Acted is when something was last changed in the runtime, zero if nothing was: the next step must not begin before that
	// can be seen.
	Acted time.Time
	// WakeAt is when the pod is due again at the latest, whatever else is told. Zero is no such time.
	WakeAt time.Time
}

// Cache tells what runs.
type Cache interface {
	// MayRun says whether, by the newest list, something of the pod runs or cannot be ruled out to.
	MayRun(uid types.UID) bool
	// GetNewerThan blocks until there is an observation of the pod that began after t, or ctx ends.
	GetNewerThan(ctx context.Context, uid types.UID, t time.Time) (*cri.PodStatus, error)
}
