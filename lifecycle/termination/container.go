// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package termination

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/lifecycle/podref"
)

// victim is one container to stop.
type victim struct {
	uid       types.UID
	container *cri.ContainerStatus
	// object is what events are recorded on; message is that of the Killing event.
	object  *v1.ObjectReference
	message string
	preStop *v1.LifecycleHandler
}

func newVictim(pod *v1.Pod, cs *cri.ContainerStatus, message string) victim {
	return victim{
		uid: pod.UID, container: cs, object: podref.Container(pod, cs.Name), message: message,
		preStop: preStopOf(pod, cs.Name),
	}
}

// KillContainer stops one container of a pod that lives on, within the pod's own grace period. message is that of the
// Killing event, reason is for the log. After an error it is called again and goes on within the same grace period.
func (t *Terminator) KillContainer(ctx context.Context, pod *v1.Pod, cs *cri.ContainerStatus, reason, message string) error {
	v := newVictim(pod, cs, message)
	t.log.Info("killing a container", "pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID, "container", cs.Name,
		"id", cs.ID, "reason", reason)
	if err := t.kill(ctx, v, t.clock.Now().Add(podGrace(pod))); err != nil {
		return err
	}
	t.memory.forgetContainer(v.uid, cs.ID)
	return nil
}

// kill takes one container through its end. The order of its steps is the contract of this package: where containers
// have to end in an order, the wait for a container's turn lies between its hook and its stop signal.
func (t *Terminator) kill(ctx context.Context, v victim, deadline time.Time) error {
	deadline, first := t.memory.begin(v.uid, v.container.ID, deadline)
	if first {
		t.recorder.Event(v.object, v1.EventTypeNormal, "Killing", v.message)
	}
	if err := t.runPreStop(ctx, v, deadline); err != nil {
		return err
	}
	return t.stop(ctx, v, deadline)
}

// stop sends the stop signal and returns when the container has ended.
func (t *Terminator) stop(ctx context.Context, v victim, deadline time.Time) error {
	id := v.container.ID
	err := t.runtime.StopContainer(ctx, id, stopGrace(deadline, t.clock.Now()))
	if err == nil || errdefs.IsNotFound(err) {
		return nil
	}
	// Some runtimes refuse to stop what has ended. Only an answer of the runtime is worth a second question.
	if ctx.Err() == nil && !errdefs.IsUnavailable(err) && t.ended(ctx, id) {
		return nil
	}
	return fmt.Errorf("stopping container %q (%s): %w", v.container.Name, id, err)
}

// ended says whether the runtime knows that the container does not run.
func (t *Terminator) ended(ctx context.Context, id string) bool {
	status, err := t.runtime.ContainerStatus(ctx, id)
	if err != nil {
		return errdefs.IsNotFound(err)
	}
	return status.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED
}
