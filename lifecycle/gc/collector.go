// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package gc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"
)

// Period is how long Run waits between passes, the kubelet's period of container garbage collection.
const Period = time.Minute

// parallel is how many pods are swept at once.
const parallel = 8

// Containers is the part of the runtime that concerns containers. Lists hold only objects of this node and are complete
// if there is no error; with an empty UID they are of all pods. What is gone already is removed with success.
type Containers interface {
	ListContainers(ctx context.Context, uid types.UID) ([]*runtimeapi.Container, error)
	ContainerStatus(ctx context.Context, id string) (*runtimeapi.ContainerStatus, error)
	StopContainer(ctx context.Context, id string, grace time.Duration) error
	RemoveContainer(ctx context.Context, id string) error
}

// Sandboxes is the part of the runtime that concerns sandboxes, with the contract of Containers.
type Sandboxes interface {
	ListSandboxes(ctx context.Context, uid types.UID) ([]*runtimeapi.PodSandbox, error)
	StopSandbox(ctx context.Context, id string) error
	RemoveSandbox(ctx context.Context, id string) error
}

// Runtime is what a Collector asks of the runtime.
type Runtime interface {
	Containers
	Sandboxes
}

// Logs removes the log files of one container record. Missing files are success.
type Logs interface {
	RemoveLogs(ctx context.Context, path string) error
}

// Dirs knows the directories of pods on the host. A missing directory is removed with success; one with a mount below it
// is FailedPrecondition and tried again at the next pass.
type Dirs interface {
	ListPods(ctx context.Context) ([]types.UID, error)
	RemovePod(ctx context.Context, uid types.UID, removeLogs bool) error
}

// PodState says what is known of a pod. removable means that everything it left may go: the API has it no more and all
// of it has stopped. known means that it exists or is being terminated, so that its older remains may go. With neither,
// nothing of it is touched.
type PodState func(uid types.UID) (removable, known bool)

// Options are what a Collector needs. Runtime, Logs, Dirs, Pods and Clock are required.
type Options struct {
	Runtime Runtime
	Logs    Logs
	Dirs    Dirs
	Pods    PodState
	// Spent, if it is set, says that a pod that still exists was ended to free the host's disk: none of its dead containers stays.
	Spent  func(uid types.UID) bool
	Clock  clock.WithTicker
	Logger *slog.Logger
	// Recorder and Node, if both are set, get the event ContainerGCFailed when a pass had errors.
	Recorder record.EventRecorder
	Node     *v1.ObjectReference
}

// Collector removes garbage. See the package documentation for its concurrency.
type Collector struct {
	opts Options
	log  *slog.Logger

	mu sync.Mutex
	// busy are the pods that are being swept.
	busy map[types.UID]bool
}

// New returns a Collector.
func New(o Options) *Collector {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Collector{opts: o, log: o.Logger, busy: map[types.UID]bool{}}
}

// Run makes a pass each Period until ctx ends.
func (c *Collector) Run(ctx context.Context) {
	ticker := c.opts.Clock.NewTicker(Period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			c.report(ctx, c.pass(ctx))
		}
	}
}

// report tells of a failed pass, unless there was nobody to ask.
func (c *Collector) report(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	c.log.Warn("garbage collection is not complete; it is tried again", "error", err, "after", Period)
	if c.opts.Recorder != nil && c.opts.Node != nil && !errdefs.IsUnavailable(err) {
		c.opts.Recorder.Event(c.opts.Node, v1.EventTypeWarning, "ContainerGCFailed", err.Error())
	}
}

// pass removes the garbage of all pods.
func (c *Collector) pass(ctx context.Context) error {
	plans, err := c.plans(ctx, "")
	if err != nil {
		return err
	}
	dirs, err := c.opts.Dirs.ListPods(ctx)
	if err != nil {
		return fmt.Errorf("listing the directories of pods: %w", err)
	}
	for _, uid := range dirs {
		if _, seen := plans[uid]; !seen {
			plans[uid] = c.planPod(uid, nil, nil)
		}
	}
	var (
		group errgroup.Group
		mu    sync.Mutex
		errs  []error
	)
	group.SetLimit(parallel)
	for _, p := range plans {
		group.Go(func() error {
			if err := c.sweep(ctx, p); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
			return nil // one pod's trouble is not another's
		})
	}
	_ = group.Wait() // never an error: they are in errs
	return errors.Join(errs...)
}

// Collect removes the garbage of one pod now. It is for a pod that has just ended or gone; like Run it leaves what may
// not be removed yet.
func (c *Collector) Collect(ctx context.Context, uid types.UID) error {
	if uid == "" {
		return fmt.Errorf("collecting garbage of one pod: its UID is missing: %w", errdefs.ErrInvalidArgument)
	}
	plans, err := c.plans(ctx, uid)
	if err != nil {
		return err
	}
	p, ok := plans[uid]
	if !ok {
		p = c.planPod(uid, nil, nil)
	}
	return c.sweep(ctx, p)
}

// plans lists the runtime's objects of one pod, or of all, and plans what to remove. Both lists must arrive.
func (c *Collector) plans(ctx context.Context, uid types.UID) (map[types.UID]*plan, error) {
	sandboxes, err := c.opts.Runtime.ListSandboxes(ctx, uid)
	if err != nil {
		return nil, fmt.Errorf("listing sandboxes: %w", err)
	}
	containers, err := c.opts.Runtime.ListContainers(ctx, uid)
	if err != nil {
		return nil, fmt.Errorf("listing containers: %w", err)
	}
	return c.planAll(sandboxes, containers), nil
}
