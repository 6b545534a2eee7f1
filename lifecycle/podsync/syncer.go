// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/lifecycle/podenv"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
	"github.com/tombolo-dev/tombolo/lifecycle/resize"
	"github.com/tombolo-dev/tombolo/lifecycle/termination"
	"github.com/tombolo-dev/tombolo/lifecycle/volume"
)

// Runtime is what a sync needs of the container runtime. Each method has a deadline of its own and returns errors of the
// classes of github.com/containerd/errdefs; Unavailable means that no answer came and says nothing about the pod.
type Runtime interface {
	Sandboxes
	Containers
}

// Sandboxes makes sandboxes.
type Sandboxes interface {
	// RunSandbox makes and starts a sandbox. A second one of the same pod and attempt is refused.
	RunSandbox(ctx context.Context, cfg *runtimeapi.PodSandboxConfig, handler string) (id string, err error)
	SandboxStatus(ctx context.Context, id string) (*runtimeapi.PodSandboxStatus, error)
	// UpdateSandboxResources tells what the containers of a sandbox have together, and the overhead of the sandbox, nil for none. A runtime
	// that does not want to know is a success. It is idempotent.
	UpdateSandboxResources(ctx context.Context, id string, overhead, resources *runtimeapi.LinuxContainerResources) error
}

// Containers makes containers.
type Containers interface {
	// CreateContainer makes a container. A second one of the same pod, name and attempt is refused.
	CreateContainer(ctx context.Context, sandboxID string, cfg *runtimeapi.ContainerConfig, sandbox *runtimeapi.PodSandboxConfig) (id string, err error)
	// StartContainer starts a created container and refuses any other.
	StartContainer(ctx context.Context, id string) error
	// RemoveContainer removes a record; one that does not exist is a success.
	RemoveContainer(ctx context.Context, id string) error
	// ImageStatus returns nil and no error if the image is not present.
	ImageStatus(ctx context.Context, image string) (*runtimeapi.Image, error)
}

// Images makes the image of a container available.
type Images interface {
	// EnsureImage returns the reference to create the container from. It tells the user by events how it went. An error
	// about the image has a method WaitingReason() string; every other one says that the runtime could not be asked. It
	// has no deadline but ctx and is idempotent.
	EnsureImage(ctx context.Context, pod *v1.Pod, c *v1.Container, sandbox *runtimeapi.PodSandboxConfig) (ref string, err error)
	// Forget drops what is remembered of a pod.
	Forget(uid types.UID)
}

// Volumes makes the volumes of a pod available on the host. All methods are idempotent. A *volume.UnmountedError is about
// the volumes themselves.
type Volumes interface {
	podenv.Files
	// Prepare makes the pod's directories, its log directories included, and its volumes; anew those that were made before, too.
	Prepare(ctx context.Context, pod *v1.Pod, anew bool) error
	// Refresh brings the contents of volumes up to date that were made before.
	Refresh(ctx context.Context, pod *v1.Pod) error
	// Mounts returns the mounts of a container, its termination message file included.
	Mounts(ctx context.Context, in volume.MountInput) ([]*runtimeapi.Mount, error)
	// Devices returns the disks that a container gets.
	Devices(pod *v1.Pod, c *v1.Container) ([]*runtimeapi.Device, error)
}

// Files makes files that are mounted into containers.
type Files interface {
	// EnsureHostsFile gives the pod's hosts file its content and returns its path on the host. It is idempotent.
	EnsureHostsFile(ctx context.Context, uid types.UID, content []byte) (path string, err error)
}

// RuntimeClasses knows the runtime classes of the cluster.
type RuntimeClasses interface {
	// RuntimeHandler returns the handler of the class. The text of an error is told to the user of the pod, and the class is
	// asked for again later.
	RuntimeHandler(ctx context.Context, class string) (handler string, err error)
}

// Killer stops what runs. After an error it is called again in the next sync; what was done is not repeated.
type Killer interface {
	KillContainer(ctx context.Context, k termination.ContainerKill) error
	KillPod(ctx context.Context, req termination.Request) error
}

// Resizer changes the resources of containers that run. The pod is always the one with what it was allocated.
type Resizer interface {
	// Restarts says whether a running container has to be restarted because its resources changed.
	Restarts(pod *v1.Pod, c *v1.Container, cs *cri.ContainerStatus) bool
	// Apply gives running containers the resources that they were allocated, except those that have to be restarted. It has
	// the deadlines of its calls and goes on where it ended when it is called again.
	Apply(ctx context.Context, pod *v1.Pod, status *cri.PodStatus) (acted bool, err error)
	// Settled notes that the pod's control group has what the pod was allocated. It returns false if that was known.
	Settled(pod *v1.Pod) (changed bool)
	// Failed tells the user that the pod could not be given what it was allocated.
	Failed(pod *v1.Pod, err error)
	// Created notes that a container was made with the resources that the pod's spec has.
	Created(pod *v1.Pod, c *v1.Container, id string)
}

// Logs looks after the log files of containers. Both methods are idempotent.
type Logs interface {
	// RestartCount returns one more than the highest number of the container's log files, 0 if there is none.
	RestartCount(ctx context.Context, pod host.Pod, container string) (int32, error)
	// RemoveLogs removes the log files of one container record; a missing file is a success.
	RemoveLogs(ctx context.Context, path string) error
}

var (
	_ Runtime = (*cri.Client)(nil)
	_ Killer  = (*termination.Terminator)(nil)
	_ Logs    = host.LogReader(nil)
	_ Files   = host.PodFiles(nil)
	_ Resizer = (*resize.Manager)(nil)
	_ Cgroups = host.PodCgroups(nil)
	_ Volumes = (*volume.Manager)(nil)
)

// Options configure New. All fields are required but MaxPIDs, LimitedSwap, Probes, Cgroups, Resizer, RuntimeClasses, SandboxReady, ClockOffset,
// MaxParallelStarts, HostIPs, Node, ClusterDNS, ClusterDomain, Logger and Registerer.
type Options struct {
	Runtime Runtime
	Images  Images
	Volumes Volumes
	Files   Files
	// Profiles has the seccomp profiles that are beside the node, which FileSets brings to the host. Without it they are the host's.
	Profiles Profiles
	FileSets FileSets
	Users    Users
	Killer   Killer
	Logs     Logs
	Hooks    HookRunner
	// Objects are what the variables of containers refer to.
	Objects  podenv.Objects
	Identity cri.Identity
	// Probes are asked about containers that have a probe. Without them every result is unknown.
	Probes podrules.ProbeResults
	// Cgroups makes the control groups of pods. Without it the runtime makes them.
	Cgroups Cgroups
	// MaxPIDs is how many processes and threads a pod may have; zero is no limit.
	MaxPIDs int64
	// LimitedSwap gives burstable containers a share of the host's swap, see cri.Swap.
	LimitedSwap bool
	// Resizer is asked about containers that run. Without it they keep the resources that they were made with.
	Resizer Resizer
	// SandboxReady is called when a new sandbox of the pod is ready, before any image is pulled. It must not block.
	SandboxReady func(pod *v1.Pod, sandbox *runtimeapi.PodSandboxStatus)
	// ClockOffset returns how far the host's clock is ahead of ours, as last measured; without it the clocks are taken for
	// equal.
	ClockOffset func() time.Duration
	// MaxParallelStarts is how many new pods may be started at once; zero is DefaultParallelStarts.
	MaxParallelStarts int
	// RuntimeClasses gives pods their handler; without it a pod with a class cannot start.
	RuntimeClasses RuntimeClasses
	// HostIPs returns the addresses of the node, the primary one first, which are those of pods on its network, and Node the
	// node as last known, nil before. Without them variables that show such values cannot be made.
	HostIPs func() []string
	Node    func() *v1.Node
	// Facts returns the newest known facts of the machine, nil before the first.
	Facts func() *host.Facts
	// ClusterDNS and ClusterDomain are the kubelet's settings of these names.
	ClusterDNS    []string
	ClusterDomain string
	Clock         clock.Clock
	Recorder      record.EventRecorder
	Logger        *slog.Logger
	Registerer    prometheus.Registerer
}

// Syncer syncs pods.
type Syncer struct {
	opts    Options
	log     *slog.Logger
	metrics *metrics
	reasons *reasonCache
	loops   *crashLoop
	hooks   *hookMemory
	cgroups *cgroupMemory
	gate    *gate
}

// New returns a Syncer.
func New(o Options) *Syncer {
	s := &Syncer{
		opts: o, log: o.Logger, metrics: newMetrics(o.Registerer), reasons: newReasonCache(), loops: newCrashLoop(o.Clock, o.ClockOffset),
		hooks: newHookMemory(), cgroups: newCgroupMemory(), gate: newGate(o.Clock, o.MaxParallelStarts),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s
}

// WaitingReason returns why the container could not be started the last time it was tried. ok is false if it could, or
// was not tried yet.
func (s *Syncer) WaitingReason(uid types.UID, container string) (reason, message string, ok bool) {
	w, ok := s.reasons.get(uid, container)
	return w.reason, w.message, ok
}

// Forget drops what is remembered of a pod that is finished: reasons, back-offs and hooks.
func (s *Syncer) Forget(uid types.UID) {
	s.reasons.forget(uid)
	s.loops.forget(uid)
	s.hooks.forget(uid)
	s.cgroups.forget(uid)
	s.opts.Images.Forget(uid)
}

// Result is how a sync ended.
type Result struct {
	// Acted says that something was changed in the runtime, so that a new observation is worth making at once.
	Acted bool
	// Resized says that resources of containers that run were changed, which no event of the runtime tells of.
	Resized bool
	// Err is why the pod is not yet as its spec asks for; the sync is to be repeated. It is the error of ctx if that
	// ended, and Unavailable if the host did not answer.
	Err error
	// BackoffUntil is the earliest time at which there is more to do, if Err holds one that is known: the end of a crash-loop
	// back-off, or now. Zero if there is none.
	BackoffUntil time.Time
}

// add joins an error to the result.
func (r *Result) add(err error) {
	if err == nil {
		return
	}
	r.Err = errors.Join(r.Err, err)
	var retry *retryError
	if errors.As(err, &retry) && (r.BackoffUntil.IsZero() || retry.until.Before(r.BackoffUntil)) {
		r.BackoffUntil = retry.until
	}
}
