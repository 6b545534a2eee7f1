// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

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
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
	"github.com/tombolo-dev/tombolo/lifecycle/podsync"
	"github.com/tombolo-dev/tombolo/lifecycle/podworker"
	"github.com/tombolo-dev/tombolo/lifecycle/status"
	"github.com/tombolo-dev/tombolo/lifecycle/termination"
)

var _ podworker.Steps = (*Engine)(nil)

// SyncPod publishes the pod's status and brings the pod closer to its spec.
func (e *Engine) SyncPod(ctx context.Context, _ podworker.UpdateType, pod *v1.Pod, rs *cri.PodStatus) (podworker.Outcome, error) {
	var out podworker.Outcome
	e.resizes.Observe(pod, rs)
	st, err := e.publish(ctx, pod, rs, false)
	if err != nil {
		return out, err
	}
	if st.Reason != status.ReasonDeadlineExceeded && e.evicted.failure(pod.UID) == nil && e.exits.Complete(pod, rs) {
		out.Terminal = true // sidecars, which may still run, are stopped after the hooks
		return out, nil
	}
	deadline, limited := status.Deadline(pod, st.StartTime)
	if podrules.Terminal(st.Phase) {
		switch {
		case st.Reason != status.ReasonDeadlineExceeded:
		case status.EndIsTold(pod):
			out.Begun = deadline
		default:
			e.opts.Recorder.Event(podref.Pod(pod), v1.EventTypeNormal, status.ReasonDeadlineExceeded, status.MessageDeadlineExceeded)
		}
		out.Terminal = true
		return out, nil
	}
	if podsync.Over(pod, rs) {
		out.Terminal = true
		return out, nil
	}
	if !limited {
		return e.syncActive(ctx, pod, rs)
	}
	// What still goes on when the pod's time is up, a pull for instance, is abandoned.
	active, cancel := context.WithTimeout(ctx, deadline.Sub(e.clock.Now()))
	defer cancel()
	out, err = e.syncActive(active, pod, rs)
	out.WakeAt = deadline
	if active.Err() != nil && ctx.Err() == nil {
		return out, nil
	}
	return out, err
}

// syncActive brings a pod closer to its spec that has neither ended nor used up its time.
func (e *Engine) syncActive(ctx context.Context, pod *v1.Pod, rs *cri.PodStatus) (podworker.Outcome, error) {
	var out podworker.Outcome
	if err := e.ready(pod); err != nil {
		return out, err
	}
	e.probes.Sync(pod)
	defer e.pleg.Hold(pod.UID)()
	result := e.sync.Sync(ctx, pod, rs)
	if result.Acted {
		out.Acted = e.clock.Now() // before the request, or the observation asked for may be too old for the next step
	}
	switch {
	case result.Resized:
		e.pleg.RequestInspection(pod.UID)
	case result.Acted:
		e.pleg.RequestRelist(pod.UID)
	}
	if ctx.Err() != nil {
		return out, ctx.Err()
	}
	if result.Err == nil {
		return out, nil
	}
	// A container that could not be started has its reason now: show it without waiting for the next step.
	if _, err := e.publish(ctx, pod, rs, false); err != nil {
		return out, err
	}
	if !result.BackoffUntil.IsZero() {
		return out, &podworker.RetryError{Err: result.Err, At: result.BackoffUntil}
	}
	return out, result.Err
}

// ready says whether the machine can take a new pod. The link's own state needs no question: without it there is no
// fresh observation, and without one no step.
func (e *Engine) ready(pod *v1.Pod) error {
	if e.opts.Machine.Facts() == nil {
		return fmt.Errorf("the facts of the host are not known yet: %w", errdefs.ErrUnavailable)
	}
	if err := e.opts.Machine.RuntimeReady(); err != nil {
		return fmt.Errorf("container runtime is not ready: %w: %w", err, errdefs.ErrUnavailable)
	}
	if err := e.opts.Machine.NetworkReady(); err != nil && !pod.Spec.HostNetwork {
		e.warn(pod, "NetworkNotReady", fmt.Sprintf("network is not ready: %v", err))
		return fmt.Errorf("%w: %w", podworker.ErrNetworkNotReady, err)
	}
	return nil
}

// publish computes the pod's status from an observation and hands it to the status manager.
func (e *Engine) publish(ctx context.Context, pod *v1.Pod, rs *cri.PodStatus, terminal bool) (v1.PodStatus, error) {
	return e.publishBy(ctx, e.status.Set, pod, rs, terminal)
}

// publishBy is publish by the given method of the status manager.
func (e *Engine) publishBy(
	ctx context.Context, set func(*v1.Pod, v1.PodStatus), pod *v1.Pod, rs *cri.PodStatus, terminal bool,
) (v1.PodStatus, error) {
	if err := e.messages.collect(ctx, pod, rs); err != nil {
		return v1.PodStatus{}, err
	}
	e.shown.mu.Lock()
	defer e.shown.mu.Unlock()
	st := e.generate(pod, rs, terminal)
	e.shown.last[pod.UID] = rs
	if terminal {
		delete(e.shown.last, pod.UID)
	}
	if e.status.Phase(pod.UID) == v1.PodPending && st.Phase == v1.PodRunning {
		e.metrics.start.Observe(e.clock.Since(e.workers.FirstSeen(pod.UID)).Seconds())
	}
	set(pod, st)
	return st, nil
}

// generate computes the pod's status. Call it with the lock of shown held.
func (e *Engine) generate(pod *v1.Pod, rs *cri.PodStatus, terminal bool) v1.PodStatus {
	in := status.Input{
		Probes: e.probes, Starting: func(cs *cri.ContainerStatus) bool { return e.sync.AwaitsPostStart(pod, cs) },
		Pod: pod, Runtime: rs, Terminal: terminal, HostIPs: e.opts.Machine.HostIPs(), Now: e.clock.Now(),
		WaitingReason: func(container string) (string, string, bool) {
			return e.sync.WaitingReason(pod.UID, container)
		},
		TerminationMessage: func(cs *cri.ContainerStatus) string { return e.messages.get(pod.UID, cs.ID) },
		Resize:             e.resizes.Conditions(pod.UID),
		Failure:            e.evicted.failure(pod.UID),
		Actuated: func(cs *cri.ContainerStatus) (v1.ResourceRequirements, bool) {
			return e.resizes.Actuated(pod, cs.ID)
		},
	}
	if cached, ok := e.status.Get(pod.UID); ok {
		in.Cached = &cached
	}
	if whole, ok := e.resizes.WholePod(pod); ok {
		in.Whole = &whole
	}
	return status.Generate(in)
}

// sandboxReady tells that containers of the pod can be started, before their images are pulled.
func (e *Engine) sandboxReady(pod *v1.Pod, _ *runtimeapi.PodSandboxStatus) {
	e.shown.mu.Lock()
	defer e.shown.mu.Unlock()
	if last, ok := e.status.Get(pod.UID); ok {
		e.status.SetSoon(pod, status.WithSandbox(pod, last, e.clock.Now()))
	}
}

// SyncTerminatingPod stops every container of the pod by the deadline, after the hooks of those that ended by themselves.
func (e *Engine) SyncTerminatingPod(ctx context.Context, pod *v1.Pod, rs *cri.PodStatus, deadline time.Time) error {
	e.probes.StopStartupAndLiveness(pod.UID)
	if _, err := e.publish(ctx, pod, rs, false); err != nil && ctx.Err() == nil {
		// It is told at the end of this step. A message that cannot be read must not keep the pod running.
		e.log.Warn("publishing that a pod terminates", "pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID, "error", err)
	}
	rs, err := e.exits.Run(ctx, pod, rs, deadline)
	if err != nil {
		return err
	}
	defer e.pleg.Hold(pod.UID)()
	if err := e.kill(ctx, termination.Request{Pod: pod, Status: rs, Deadline: deadline}); err != nil {
		return err
	}
	after, err := e.observeStopped(ctx, rs)
	if err != nil {
		return err
	}
	e.probes.Remove(pod.UID)
	_, err = e.publishBy(ctx, e.status.SetSoon, pod, after, true) // the next step says the same, with the terminal phase
	return err
}

// SyncTerminatingRuntimePod stops every container of an orphan. All that is known of it comes from the runtime.
func (e *Engine) SyncTerminatingRuntimePod(ctx context.Context, p *podworker.RuntimePod, deadline time.Time) error {
	rs, err := e.observe(ctx, p.UID)
	if err != nil {
		return err
	}
	if err := e.kill(ctx, termination.Request{Status: rs, Deadline: deadline}); err != nil {
		return err
	}
	_, err = e.observeStopped(ctx, rs)
	return err
}

func (e *Engine) kill(ctx context.Context, req termination.Request) error {
	err := e.term.KillPod(ctx, req)
	if err == nil {
		return nil
	}
	if req.Pod != nil && ctx.Err() == nil && !errdefs.IsUnavailable(err) {
		e.warn(req.Pod, "FailedKillPod", fmt.Sprintf("error killing pod: %v", err))
	}
	return err
}

// observe makes an observation of the pod that is newer than the call.
func (e *Engine) observe(ctx context.Context, uid types.UID) (*cri.PodStatus, error) {
	begin := e.clock.Now() // before the request, or the observation asked for may be too old for us
	e.pleg.RequestRelist(uid)
	return e.pleg.GetNewerThan(ctx, uid, begin)
}

// observeStopped looks at the pod anew and makes sure that nothing of it runs.
func (e *Engine) observeStopped(ctx context.Context, before *cri.PodStatus) (*cri.PodStatus, error) {
	after, err := e.observe(ctx, before.UID)
	if err != nil {
		return nil, err
	}
	for _, containers := range [][]cri.ContainerStatus{after.Containers, after.ExitHooks} {
		for i := range containers {
			if cs := &containers[i]; cs.MayRun() {
				return nil, fmt.Errorf("container %q of pod %s is %s after it was stopped", cs.Name, before.UID, cs.State)
			}
		}
	}
	return after, nil
}

// SyncTerminatedPod releases the pod's directory and makes its status final, after which the API object may go.
func (e *Engine) SyncTerminatedPod(ctx context.Context, pod *v1.Pod, rs *cri.PodStatus) error {
	if _, err := e.publish(ctx, pod, rs, true); err != nil {
		return err
	}
	if err := e.volumes.Cleanup(ctx, pod.UID); err != nil {
		return err
	}
	e.opts.Objects.Forget(pod.UID)
	e.status.Finish(pod)
	e.freeEvicted(ctx, pod)
	return nil
}
