// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/lifecycle/pleg"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
	"github.com/tombolo-dev/tombolo/lifecycle/podworker"
)

const (
	// confirmTimeout bounds the question to the API whether a runtime pod's object is really gone.
	confirmTimeout = 10 * time.Second
	// collectParallel is how many orphans that do not run are collected at once.
	collectParallel = 8
)

// housekeep compares what is desired with what has workers and what runs. Until the source delivered its first complete
// list it does nothing: absence would prove nothing.
func (e *Engine) housekeep(ctx context.Context, wg *sync.WaitGroup) {
	desired, ok := e.desiredUIDs()
	if !ok {
		return
	}
	again := e.workers.Forget(desired)
	e.status.Retain(e.shownUIDs(desired, again))
	for _, uid := range again {
		if pod, ok := e.pod(uid); ok {
			e.metrics.restarted.WithLabelValues(podrules.StaticLabel(podrules.Static(pod))).Inc()
		}
	}
	e.startMissing(desired)
	active := e.nodeFacts().ActivePods
	e.metrics.setPods(e.Pods(), active)
	e.setTiers(ctx, wg, active)
	pods, _, _ := e.pleg.Observation() // there is one: nothing is decided without
	for _, p := range pods {
		if _, wanted := desired[p.UID]; wanted || e.workers.Known(p.UID) {
			continue
		}
		e.orphan(ctx, wg, p)
	}
	e.forget(pods, desired)
}

// shownUIDs are the pods whose status is kept: those that are desired or still on their way out. What comes again, under the
// same UID, has nothing of the status of the one before.
func (e *Engine) shownUIDs(desired map[types.UID]struct{}, again []types.UID) map[types.UID]struct{} {
	out := maps.Clone(desired)
	e.mu.RLock()
	for uid := range e.seen {
		if e.workers.Known(uid) {
			out[uid] = struct{}{}
		}
	}
	e.mu.RUnlock()
	for _, uid := range again {
		delete(out, uid)
	}
	return out
}

// desiredUIDs returns a copy of the desired set, and false before it is complete.
func (e *Engine) desiredUIDs() (map[types.UID]struct{}, bool) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	out := make(map[types.UID]struct{}, len(e.desired))
	for uid := range e.desired {
		out[uid] = struct{}{}
	}
	return out, e.synced
}

// startMissing makes a worker for a desired pod that has none, for instance one whose earlier worker was that of an orphan.
func (e *Engine) startMissing(desired map[types.UID]struct{}) {
	for uid := range desired {
		pod, ok := e.pod(uid)
		if ok && !e.workers.Known(uid) && !e.isRejected(uid) && !e.waitsForName(pod) {
			e.workers.Update(podworker.Update{Type: podworker.Create, Pod: e.resizes.Add(pod)})
		}
	}
}

// orphan deals with a runtime pod that nobody wants. If something of it runs, or if this process never saw it in the API, the
// API is asked once more, past every cache, before anything is stopped or removed.
func (e *Engine) orphan(ctx context.Context, wg *sync.WaitGroup, p pleg.PodRecord) {
	e.mu.Lock()
	_, busy := e.confirming[p.UID]
	e.confirming[p.UID] = struct{}{}
	e.mu.Unlock()
	if busy {
		return
	}
	wg.Go(func() {
		defer func() {
			e.mu.Lock()
			delete(e.confirming, p.UID)
			e.mu.Unlock()
		}()
		switch {
		case !p.Running && e.hasSeen(p.UID):
			e.collect(ctx, p.UID)
		case !e.askedAndGone(ctx, p):
		case p.Running:
			e.killOrphan(p)
		default:
			e.see(p.UID)
			e.collect(ctx, p.UID)
		}
	})
}

// askedAndGone asks for a few pods at a time, however many there are.
func (e *Engine) askedAndGone(ctx context.Context, p pleg.PodRecord) bool {
	select {
	case e.asking <- struct{}{}:
		defer func() { <-e.asking }()
		return e.confirmGone(ctx, p)
	case <-ctx.Done():
		return false
	}
}

// confirmGone says whether the API itself has no pod of this UID.
func (e *Engine) confirmGone(ctx context.Context, p pleg.PodRecord) bool {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	pod, err := e.opts.Source.Live(ctx, p.Namespace, p.Name)
	switch {
	case errdefs.IsNotFound(err):
		return true
	case err != nil:
		e.log.Warn("cannot confirm that a pod is gone; its containers stay", "pod", p.Namespace+"/"+p.Name,
			"uid", p.UID, "error", err)
		return false
	default:
		return pod.UID != p.UID
	}
}

// killOrphan stops what nobody wants. The lock is held throughout, so that a pod that is wanted in this very moment is either
// seen here or made after the orphan has ended.
func (e *Engine) killOrphan(p pleg.PodRecord) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, wanted := e.desired[p.UID]; wanted {
		return
	}
	e.log.Info("stopping an orphan: its pod is gone from the API", "pod", p.Namespace+"/"+p.Name, "uid", p.UID)
	e.metrics.orphans.Inc()
	e.seen[p.UID] = struct{}{}
	grace := removedGrace
	e.workers.Update(podworker.Update{
		Type: podworker.Kill, Grace: &grace,
		Runtime: &podworker.RuntimePod{UID: p.UID, Namespace: p.Namespace, Name: p.Name},
	})
}

// collect removes what is left of a pod that has ended and that the API no longer has.
func (e *Engine) collect(ctx context.Context, uid types.UID) {
	select {
	case e.collecting <- struct{}{}:
		defer func() { <-e.collecting }()
	case <-ctx.Done():
		return
	}
	if removable, _ := e.removable(uid); !removable {
		return
	}
	if err := e.gc.Collect(ctx, uid); err != nil && ctx.Err() == nil {
		e.log.Warn("collecting the remains of a pod", "uid", uid, "error", err)
	}
}

// forget drops what is remembered of pods that are neither desired nor in the runtime.
func (e *Engine) forget(pods []pleg.PodRecord, desired map[types.UID]struct{}) {
	keep := maps.Clone(desired)
	for _, p := range pods {
		keep[p.UID] = struct{}{}
	}
	e.mu.Lock()
	gone := make([]types.UID, 0, len(e.seen))
	for uid := range e.seen {
		if _, ok := keep[uid]; !ok && !e.workers.Known(uid) {
			gone = append(gone, uid)
			delete(e.seen, uid)
		}
	}
	e.mu.Unlock()
	for _, uid := range gone {
		e.messages.forget(uid)
		e.sync.Forget(uid) // and the images' memory with it
		e.term.Forget(uid)
		e.exits.Forget(uid)
		e.probes.Remove(uid)
		e.shown.forget(uid)
		e.evicted.forget(uid)
		e.opts.Objects.Forget(uid)
	}
}

// removable answers the garbage collector. What the runtime has of a pod that this process never saw in the API is not taken: a
// list may be wrong, and housekeeping asks for that pod.
func (e *Engine) removable(uid types.UID) (removable, known bool) {
	_, desired := e.pod(uid)
	known = desired || e.workers.Known(uid)
	if !e.sourceSynced() || !known && !e.hasSeen(uid) && e.mayBeInRuntime(uid) {
		return false, known
	}
	return e.workers.ContentRemovable(uid, desired), known
}

// sourceSynced says whether the desired set is complete.
func (e *Engine) sourceSynced() bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.synced
}

// mayBeInRuntime says whether the runtime has something of the pod, or whether that is not known yet.
func (e *Engine) mayBeInRuntime(uid types.UID) bool {
	_, _, observed := e.pleg.Observation()
	return !observed || e.inRuntime(uid)
}

func (e *Engine) hasSeen(uid types.UID) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	_, ok := e.seen[uid]
	return ok
}

func (e *Engine) see(uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen[uid] = struct{}{}
}

func (e *Engine) couldHaveRunningContainers(uid types.UID) bool {
	if e.isRejected(uid) {
		return false
	}
	return e.workers.CouldHaveRunningContainers(uid)
}

func (e *Engine) pod(uid types.UID) (*v1.Pod, bool) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	pod, ok := e.desired[uid]
	return pod, ok
}

func (e *Engine) isRejected(uid types.UID) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	_, ok := e.rejected[uid]
	return ok
}
