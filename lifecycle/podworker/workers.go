// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Options configure New. Steps, Cache and Clock are required.
type Options struct {
	Steps Steps
	Cache Cache
	Clock clock.WithTicker
	// Warn reports a pod that could not be observed (the kubelet's FailedSync event). It may be nil.
	Warn func(pod *v1.Pod, reason, message string)
	// Logger may be nil.
	Logger *slog.Logger
	// Registerer may be nil.
	Registerer prometheus.Registerer
	// Jitter returns a number in [0,1) that spreads retries. It may be nil.
	Jitter func() float64
}

// Workers are the workers of all pods.
type Workers struct {
	ctx     context.Context //nolint:containedctx // the lifetime of every worker goroutine; Update has no context of its own.
	steps   Steps
	cache   Cache
	clock   clock.WithTicker
	warn    func(*v1.Pod, string, string)
	log     *slog.Logger
	jitter  func() float64
	metrics *metrics

	wg     sync.WaitGroup
	mu     sync.Mutex
	byUID  map[types.UID]*worker
	synced bool
}

// worker is one pod. Its fields but wake are guarded by Workers.mu.
type worker struct {
	uid     types.UID
	state   state
	pending *Update
	// pod is the newest known spec, nil for an orphan; runtime is set for an orphan.
	pod     *v1.Pod
	runtime *RuntimePod
	// restart says that the pod was wanted again, under the same UID, when it was on its way out.
	restart bool
	// begun says that a step of the pod began.
	begun bool
	// failing says that the last step failed.
	failing bool
	// done are closed when no container runs any more.
	done []chan struct{}
	// cancelStep ends the context of the running step, nil when none runs.
	cancelStep context.CancelFunc
	wake       chan struct{}
}

// New returns Workers without pods. ctx bounds every worker: when it ends they stop where they are and containers live on.
func New(ctx context.Context, o Options) *Workers {
	w := &Workers{
		ctx: ctx, steps: o.Steps, cache: o.Cache, clock: o.Clock, warn: o.Warn, log: o.Logger, jitter: o.Jitter,
		metrics: newMetrics(o.Registerer), byUID: map[types.UID]*worker{},
	}
	if w.log == nil {
		w.log = slog.New(slog.DiscardHandler)
	}
	if w.warn == nil {
		w.warn = func(*v1.Pod, string, string) {}
	}
	if w.jitter == nil {
		w.jitter = rand.Float64
	}
	return w
}

// Wait returns when every worker has ended, which they do after the context of New ended.
func (w *Workers) Wait() { w.wg.Wait() }

// Update hands an update to the pod's worker and makes one if there is none. It never blocks. An update of a finished
// pod is dropped.
func (w *Workers) Update(u Update) {
	now := w.clock.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil {
		return
	}
	wk, known := w.byUID[u.uid()]
	if !known {
		wk = &worker{uid: u.uid(), wake: make(chan struct{}, 1)}
		w.byUID[wk.uid] = wk
	}
	if u.Type == Create && !wk.state.terminatingAt.IsZero() {
		wk.restart = true
		return
	}
	wk.await(u.done)
	if wk.state.finished {
		return
	}
	wk.learn(&u)
	if !known && u.ended() && !w.cache.MayRun(wk.uid) {
		wk.state.born(now)
	}
	change := wk.state.admit(&u, wk.pod, now)
	wk.pending = &u
	if change.becameTerminating {
		w.log.Info("termination requested", "uid", wk.uid, "by", u.Type.String(), "deadline", wk.state.deadline)
	}
	if (change.becameTerminating || change.shortened) && wk.cancelStep != nil {
		wk.cancelStep()
	}
	if !known {
		w.wg.Go(func() { w.run(wk) })
	}
	wk.poke()
}

// learn keeps the newest spec. A known spec is never replaced by less.
func (wk *worker) learn(u *Update) {
	switch {
	case u.Pod != nil:
		wk.pod = u.Pod
	case wk.pod != nil:
		u.Pod = wk.pod
	default:
		wk.runtime = u.Runtime
	}
}

func (wk *worker) poke() {
	select {
	case wk.wake <- struct{}{}:
	default:
	}
}

// Forget drops the memory of finished pods that are not in desired, and of those that are but were removed and wanted again
// before they had finished: these are returned and can be created anew. Call it only with a complete desired set.
func (w *Workers) Forget(desired map[types.UID]struct{}) (again []types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.synced = true
	for uid, wk := range w.byUID {
		_, ok := desired[uid]
		if !wk.state.finished || ok && !wk.restart {
			continue
		}
		delete(w.byUID, uid)
		if ok {
			again = append(again, uid)
		}
	}
	w.metrics.setWorking(w.byUID, desired)
	return again
}

// retryDelay is how long after a step its pod is due again.
func (w *Workers) retryDelay(phase Phase, err error, now time.Time) time.Duration {
	return time.Duration(float64(baseDelay(phase, err, now)) * (1 + w.jitter()/2))
}
