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
	pod       *v1.Pod
	podIP     string
	container *cri.ContainerStatus
	// object is what events are recorded on; message is that of the Killing event.
	object  *v1.ObjectReference
	message string
	preStop *v1.LifecycleHandler
	// after are those whose end comes before this container's stop signal.
	after []*ending
}

func newVictim(pod *v1.Pod, cs *cri.ContainerStatus, message, podIP string) victim {
	return victim{
		uid: pod.UID, pod: pod, podIP: podIP, container: cs, object: podref.Container(pod, cs.Name), message: message,
		preStop: preStopOf(pod, cs.Name),
	}
}

// KillReason says why a container is killed while its pod lives on.
type KillReason string

// The reasons that have a grace period of their own: that of the probe that failed, if it has one.
const (
	KillLivenessFailed KillReason = "LivenessFailed"
	KillStartupFailed  KillReason = "StartupFailed"
)

// ContainerKill is a container of a pod that lives on, to be killed.
type ContainerKill struct {
	Pod       *v1.Pod
	Container *cri.ContainerStatus
	// PodIP is where an httpGet hook goes that names no host.
	PodIP string
	Why   KillReason
	// Message is that of the Killing event.
	Message string
	// NoGrace leaves out the hook and the grace period.
	NoGrace bool
}

// KillContainer stops one container of a pod that lives on, within the pod's own grace period or that of the probe that
// failed. After an error it is called again and goes on within the same grace period.
func (t *Terminator) KillContainer(ctx context.Context, k ContainerKill) error {
	v := newVictim(k.Pod, k.Container, k.Message, k.PodIP)
	if k.NoGrace {
		v.preStop = nil
	}
	t.log.Info("killing a container", "pod", k.Pod.Namespace+"/"+k.Pod.Name, "uid", k.Pod.UID, "container", k.Container.Name,
		"id", k.Container.ID, "reason", string(k.Why))
	if err := t.kill(ctx, v, budget{own: t.clock.Now().Add(k.grace())}); err != nil {
		return err
	}
	t.memory.forgetContainer(v.uid, k.Container.ID)
	return nil
}

// kill takes one container through its end. The order of its steps is the contract of this package: where containers
// have to end in an order, the wait for a container's turn lies between its hook and its stop signal.
func (t *Terminator) kill(ctx context.Context, v victim, b budget) error {
	deadline, first := t.memory.begin(v.uid, v.container.ID, b)
	if first {
		t.recorder.Event(v.object, v1.EventTypeNormal, "Killing", v.message)
	}
	if err := t.runPreStop(ctx, v, deadline); err != nil {
		return err
	}
	if err := t.awaitTurn(ctx, v, deadline); err != nil {
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
