// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

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
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/lifecycle/evict"
	"github.com/tombolo-dev/tombolo/lifecycle/exithook"
	"github.com/tombolo-dev/tombolo/lifecycle/gc"
	"github.com/tombolo-dev/tombolo/lifecycle/image"
	"github.com/tombolo-dev/tombolo/lifecycle/pleg"
	"github.com/tombolo-dev/tombolo/lifecycle/podsync"
	"github.com/tombolo-dev/tombolo/lifecycle/podworker"
	"github.com/tombolo-dev/tombolo/lifecycle/probe"
	"github.com/tombolo-dev/tombolo/lifecycle/resize"
	"github.com/tombolo-dev/tombolo/lifecycle/status"
	"github.com/tombolo-dev/tombolo/lifecycle/termination"
	"github.com/tombolo-dev/tombolo/lifecycle/volume"
)

// Runtime is the part of CRI that the engine's parts use together; each part declares its own share.
type Runtime interface {
	pleg.Runtime
	podsync.Runtime
	termination.Runtime
	image.Runtime
	gc.Runtime
	probe.Runtime
	resize.Runtime
	exithook.Runtime
}

// Options configure New. All fields but MaxParallelStarts, MaxParallelPulls, Profiles, NoPodCgroups, MaxPIDs, LimitedSwap, UnsafeSysctls,
// RuntimeClasses, Node, Logger and Registerer are required.
type Options struct {
	Source   PodSource
	Runtime  Runtime
	Host     host.Host
	Machine  Machine
	Objects  Objects
	Sink     status.Sink
	Recorder record.EventRecorder
	Identity cri.Identity
	// ClusterDNS and ClusterDomain are the kubelet's settings of these names.
	ClusterDNS    []string
	ClusterDomain string
	// MaxPods is the most pods that may be active at once.
	MaxPods int
	// MaxParallelStarts is how many new pods may be started at once; zero is podsync.DefaultParallelStarts.
	MaxParallelStarts int
	// MaxParallelPulls is how many images may be pulled at once; zero is no limit.
	MaxParallelPulls int
	// Profiles has the seccomp profiles that are beside the node; nil if there are none.
	Profiles podsync.Profiles
	// NoPodCgroups leaves the control groups of pods to the runtime.
	NoPodCgroups bool
	// MaxPIDs is how many processes and threads a pod may have; zero is no limit.
	MaxPIDs int64
	// LimitedSwap gives burstable containers a share of the host's swap, see cri.Swap.
	LimitedSwap bool
	// UnsafeSysctls are sysctls that pods may set besides the safe ones, see admission.ValidateSysctlPattern.
	UnsafeSysctls []string
	// RuntimeClasses knows the runtime classes of the cluster; without it there are none.
	RuntimeClasses podsync.RuntimeClasses
	// Node returns the node object as last known, nil before. Admission compares pods with it. It may be nil itself.
	Node       func() *v1.Node
	Clock      clock.WithTicker
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

func (o *Options) validate() error {
	var errs []error
	for name, missing := range map[string]bool{
		"Source": o.Source == nil, "Runtime": o.Runtime == nil, "Host": o.Host == nil, "Machine": o.Machine == nil,
		"Objects": o.Objects == nil,
		"Sink":    o.Sink == nil, "Recorder": o.Recorder == nil, "Clock": o.Clock == nil,
		"Identity": o.Identity.Cluster == "" || o.Identity.Node == "",
	} {
		if missing {
			errs = append(errs, errors.New("lifecycle options: "+name+" is required"))
		}
	}
	return errors.Join(errs...)
}

// Engine runs the pods of one node.
type Engine struct {
	opts     Options
	log      *slog.Logger
	clock    clock.WithTicker
	pleg     *pleg.PLEG
	status   *status.Manager
	sync     *podsync.Syncer
	images   *image.Manager
	term     *termination.Terminator
	exits    *exithook.Runner
	volumes  *volume.Manager
	probes   *probe.Manager
	resizes  *resize.Manager
	evict    *evict.Manager
	evicted  evictions
	gc       *gc.Collector
	messages *messages
	shown    shown
	refresh  *refreshes
	tiers    tiers
	metrics  *metrics

	// workers is made by Run, because workers live as long as Run's context.
	workers *podworker.Workers

	mu sync.RWMutex
	// desired is what the source wants, terminating pods included, with the resources that they ask for.
	desired map[types.UID]*v1.Pod
	// rejected are desired pods that admission refused; they have no worker.
	rejected map[types.UID]struct{}
	// seen are the pods that parts of the engine may remember something of.
	seen   map[types.UID]struct{}
	synced bool
	// confirming are runtime pods whose absence from the API is being confirmed.
	confirming map[types.UID]struct{}
	loopSeen   time.Time

	// collecting holds a token for each orphan that is being collected, asking one for each of which the API is asked.
	collecting, asking chan struct{}
}

// New assembles an engine. It does nothing until Run.
func New(o Options) (*Engine, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	e := &Engine{
		opts: o, log: o.Logger, clock: o.Clock,
		messages: newMessages(o.Host), shown: shown{last: map[types.UID]*cri.PodStatus{}}, refresh: newRefreshes(), metrics: newMetrics(o.Registerer),
		desired: map[types.UID]*v1.Pod{}, rejected: map[types.UID]struct{}{}, seen: map[types.UID]struct{}{},
		confirming: map[types.UID]struct{}{}, collecting: make(chan struct{}, collectParallel),
		asking: make(chan struct{}, collectParallel),
	}
	e.assemble()
	return e, nil
}

// assemble makes the parts and introduces them to each other.
func (e *Engine) assemble() {
	o := e.opts
	e.pleg = pleg.New(pleg.Options{
		Runtime: o.Runtime, Watcher: o.Host, Labels: o.Identity.Labels(), HostIPs: o.Machine.HostIPs, Clock: o.Clock, Logger: part(o.Logger, "pleg"),
		Registerer: o.Registerer,
	})
	e.status = status.NewManager(status.Options{
		Sink: o.Sink, CouldHaveRunningContainers: e.couldHaveRunningContainers, Clock: o.Clock,
		Logger: part(o.Logger, "status"), Registerer: o.Registerer,
	})
	e.term = termination.New(termination.Options{
		Runtime: o.Runtime, Hooks: o.Host, Clock: o.Clock, Recorder: o.Recorder,
		Logger: part(o.Logger, "termination"), Registerer: o.Registerer,
	})
	e.volumes = volume.New(volume.Options{
		Dirs: o.Host, Files: o.Host, Objects: o.Objects, Claims: o.Objects, Bundles: o.Objects, Keys: o.Objects, NodeLabels: e.nodeLabels,
		Allocatable: e.allocatable, Recorder: o.Recorder, Clock: o.Clock,
	})
	e.images = image.New(image.Options{
		Images: o.Runtime, Records: o.Host, Secrets: o.Objects, MaxParallelPulls: o.MaxParallelPulls, Clock: o.Clock, Recorder: o.Recorder,
		Logger: part(o.Logger, "image"), Registerer: o.Registerer,
	})
	e.probes = probe.New(probe.Options{
		Runtime: o.Runtime, Prober: o.Host, Cache: e.pleg, HostIP: e.hostIP, Clock: o.Clock, Recorder: o.Recorder,
		Starting: func(pod *v1.Pod, cs *cri.ContainerStatus) bool { return e.sync.AwaitsPostStart(pod, cs) },
		Logger:   part(o.Logger, "probe"), Registerer: o.Registerer,
	})
	e.resizes = resize.New(resize.Options{Clock: o.Clock, Recorder: o.Recorder, Runtime: o.Runtime})
	var cgroups podsync.Cgroups
	if !o.NoPodCgroups {
		cgroups = o.Host
	}
	e.sync = podsync.New(podsync.Options{
		Runtime: o.Runtime, Images: e.images, Volumes: e.volumes, Files: o.Host, Profiles: o.Profiles, FileSets: o.Host, Users: o.Host, Killer: e.term, Logs: o.Host, Hooks: o.Host,
		Probes: e.probes, Cgroups: cgroups, Resizer: e.resizes, SandboxReady: e.sandboxReady, Identity: o.Identity, Facts: o.Machine.Facts,
		Objects: o.Objects, HostIPs: o.Machine.HostIPs, Node: o.Node, RuntimeClasses: o.RuntimeClasses,
		ClockOffset: o.Machine.ClockOffset, MaxParallelStarts: o.MaxParallelStarts,
		ClusterDNS: o.ClusterDNS, ClusterDomain: o.ClusterDomain, Clock: o.Clock, Recorder: o.Recorder,
		MaxPIDs: o.MaxPIDs, LimitedSwap: o.LimitedSwap,
		Logger: part(o.Logger, "podsync"), Registerer: o.Registerer,
	})
	e.exits = exithook.New(exithook.Options{
		Runtime: o.Runtime, Hooks: o.Host, Cache: e.pleg, Configure: e.sync.ExitHookConfig, Clock: o.Clock, Recorder: o.Recorder,
		ClockOffset: o.Machine.ClockOffset, Logger: part(o.Logger, "exithook"), Registerer: o.Registerer,
	})
	e.gc = gc.New(gc.Options{
		Runtime: o.Runtime, Logs: o.Host, Dirs: o.Host, Pods: e.removable, Spent: e.spent, Recorder: o.Recorder, Clock: o.Clock,
		Node: &v1.ObjectReference{Kind: "Node", Name: o.Identity.Node}, Logger: part(o.Logger, "gc"),
	})
	e.evict = evict.New(evict.Options{
		Usage: o.Host, Pods: e.livePods, Evict: e.evictPod, Clock: o.Clock, Logger: part(o.Logger, "evict"), Registerer: o.Registerer,
	})
}

func part(l *slog.Logger, name string) *slog.Logger { return l.With("part", name) }

// Run runs the engine until ctx ends and returns when all its goroutines have ended. Containers live on.
func (e *Engine) Run(ctx context.Context) error {
	e.workers = podworker.New(ctx, podworker.Options{
		Steps: e, Cache: e.pleg, Clock: e.clock, Warn: e.warn,
		Logger: part(e.log, "podworker"), Registerer: e.opts.Registerer,
	})
	var wg sync.WaitGroup
	for _, run := range []func(context.Context){e.opts.Source.Run, e.pleg.Run, e.status.Run, e.gc.Run, e.probes.Run, e.evict.Run} {
		wg.Go(func() { run(ctx) })
	}
	e.loop(ctx, &wg)
	wg.Wait()
	e.workers.Wait()
	return nil
}

func (e *Engine) warn(pod *v1.Pod, reason, message string) {
	e.opts.Recorder.Event(pod, v1.EventTypeWarning, reason, message)
}
