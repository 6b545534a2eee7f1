// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package exithook

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// Runtime runs the containers of hooks. Each method has a deadline of its own and returns errors of the classes of
// github.com/containerd/errdefs; after Unavailable the effect is unknown and is looked for.
type Runtime interface {
	// CreateContainer makes a container. A second one of the same pod, name and attempt is refused.
	CreateContainer(ctx context.Context, sandboxID string, cfg *runtimeapi.ContainerConfig, sandbox *runtimeapi.PodSandboxConfig) (id string, err error)
	// StartContainer starts a created container and refuses any other.
	StartContainer(ctx context.Context, id string) error
	// StopContainer with no grace kills the container. It is idempotent.
	StopContainer(ctx context.Context, id string, grace time.Duration) error
	// ContainerStatus is NotFound for a container that does not exist.
	ContainerStatus(ctx context.Context, id string) (*runtimeapi.ContainerStatus, error)
}

// Cache tells what runs.
type Cache interface {
	// RequestRelist asks for a new observation of the pod.
	RequestRelist(uid types.UID)
	// GetNewerThan blocks until there is an observation that was begun after t.
	GetNewerThan(ctx context.Context, uid types.UID, t time.Time) (*cri.PodStatus, error)
	// GetOther blocks until there is another observation than seen.
	GetOther(ctx context.Context, uid types.UID, seen *cri.PodStatus) (*cri.PodStatus, error)
}

// Configure returns what the container is made of that runs command after the end of c, whose record is given, and the
// configuration of the pod's newest sandbox. An error is about the pod, or Unavailable. It is idempotent.
type Configure func(
	ctx context.Context, pod *v1.Pod, status *cri.PodStatus, c *v1.Container, record *cri.ContainerStatus, command []string,
) (*runtimeapi.ContainerConfig, *runtimeapi.PodSandboxConfig, error)

var _ Runtime = (*cri.Client)(nil)

// Options configure New. All fields are required but ClockOffset, Logger and Registerer.
type Options struct {
	Runtime   Runtime
	Hooks     host.HookRunner
	Cache     Cache
	Configure Configure
	Clock     clock.Clock
	Recorder  record.EventRecorder
	// ClockOffset returns how far the host's clock is ahead of ours; without it the clocks are taken for equal.
	ClockOffset func() time.Duration
	Logger      *slog.Logger
	Registerer  prometheus.Registerer
}

// Runner runs hooks of containers that ended by themselves.
type Runner struct {
	opts   Options
	log    *slog.Logger
	hooks  *prometheus.CounterVec
	memory *memory
}

// New returns a Runner.
func New(o Options) *Runner {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.ClockOffset == nil {
		o.ClockOffset = func() time.Duration { return 0 }
	}
	return &Runner{opts: o, log: o.Logger, hooks: newHookCounter(o.Registerer), memory: newMemory()}
}

// Complete says whether the pod, which nobody has ended, has completed by itself and is to be ended with its hooks, and
// notes that: from then on it counts, whatever becomes of the pod. It is false for pods that ask for no such hooks.
func (r *Runner) Complete(pod *v1.Pod, status *cri.PodStatus) bool {
	if !Wanted(pod) || podrules.Terminal(pod.Status.Phase) || !finished(pod, status) {
		return false
	}
	r.memory.complete(pod.UID)
	return true
}

// Forget drops what is remembered of a pod that is finished.
func (r *Runner) Forget(uid types.UID) { r.memory.forget(uid) }

// Run runs the hooks that are due, all at once, and returns the newest observation when they have ended: by themselves, or
// killed when their time was up. How they end does not stand in the way of the pod's end, so the error is that of ctx, or
// says that something is to be tried again with a new observation.
func (r *Runner) Run(ctx context.Context, pod *v1.Pod, status *cri.PodStatus, deadline time.Time) (*cri.PodStatus, error) {
	due := Due(Input{
		Pod: pod, Status: status, Completed: r.memory.completed(pod.UID), ClockOffset: r.opts.ClockOffset(),
	})
	var (
		wg    sync.WaitGroup
		errs  = make([]error, len(due))
		acted bool
	)
	for i, hook := range due {
		if r.memory.ended(pod.UID, hook.Record.ID) {
			continue
		}
		acted = true
		j := &job{Runner: r, Hook: hook, pod: pod, status: status, deadline: deadline}
		wg.Go(func() { errs[i] = j.run(ctx) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil || !acted {
		return status, err
	}
	begin := r.opts.Clock.Now()
	r.opts.Cache.RequestRelist(pod.UID)
	return r.opts.Cache.GetNewerThan(ctx, pod.UID, begin)
}
