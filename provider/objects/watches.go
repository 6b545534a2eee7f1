// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/provider/apierr"
)

const (
	// sweepPeriod is how often watches that nobody needs are looked for.
	sweepPeriod = time.Minute
	// idleTime is how long an object that no volume shows is watched after it was last read: the kubelet's five
	// times syncFrequency.
	idleTime = 5 * time.Minute
)

// watches keep the objects of one kind that pods refer to.
type watches[T metav1.Object] struct {
	kind    kind[T]
	changed func([]types.UID)
	clock   clock.WithTicker
	log     *slog.Logger
	metrics *metrics

	// feeds are the goroutines of the watches.
	feeds sync.WaitGroup

	mu sync.Mutex
	// ctx is the life of the feeds, nil before run. ended says that no more are made.
	ctx     context.Context
	ended   bool
	entries map[types.NamespacedName]*entry[T]
}

// entry is what is known of one object. The lock of its watches guards it.
type entry[T metav1.Object] struct {
	name types.NamespacedName
	// pods are those that read the object, and whether a volume of theirs shows it.
	pods     map[types.UID]bool
	lastRead time.Time

	// object is the newest version, and found whether there is one. Both mean something only if the entry is known.
	object T
	found  bool
	known  bool
	// final says that the object is immutable: it is not watched any more.
	final bool

	// feed is the watch, nil while there is none. answered is closed when a complete answer came after it had begun.
	feed     *feed[T]
	answered chan struct{}
	// missed says that a reader got no answer, so that the first one is a change to it. failure is why.
	missed  bool
	failure error
}

func newWatches[T metav1.Object](o Options, k kind[T], m *metrics) *watches[T] {
	return &watches[T]{
		kind: k, changed: o.Changed, clock: o.Clock, log: o.Logger, metrics: m, entries: map[types.NamespacedName]*entry[T]{},
	}
}

// run lets feeds run, and ends those that are idle, until ctx ends.
func (w *watches[T]) run(ctx context.Context) {
	w.mu.Lock()
	w.ctx = ctx
	for _, e := range w.entries {
		w.start(e)
	}
	w.mu.Unlock()
	tick := w.clock.NewTicker(sweepPeriod)
	defer tick.Stop()
	for {
		select {
		case <-tick.C():
			w.sweep()
		case <-ctx.Done():
			w.end()
			return
		}
	}
}

// end joins the feeds when their context has ended.
func (w *watches[T]) end() {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.feeds.Wait()
}

// get returns the object for a pod, which refers to it from now on until it is forgotten.
func (w *watches[T]) get(ctx context.Context, pod *v1.Pod, name string) (T, error) {
	var none T
	if name == "" {
		return none, fmt.Errorf("object %q/%q not registered: %w", pod.Namespace, name, errdefs.ErrInvalidArgument)
	}
	e, answered := w.refer(pod, name)
	if err := await(ctx, w.clock, answered); err != nil {
		return none, err
	}
	return w.answer(e)
}

// refer notes that the pod reads the object, and sees to it that it is watched.
func (w *watches[T]) refer(pod *v1.Pod, name string) (*entry[T], <-chan struct{}) {
	key := types.NamespacedName{Namespace: pod.Namespace, Name: name}
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entries[key]
	if e == nil {
		e = &entry[T]{name: key, pods: map[types.UID]bool{}, answered: make(chan struct{})}
		w.entries[key] = e
	}
	e.pods[pod.UID] = w.kind.shown(pod, name)
	e.lastRead = w.clock.Now()
	w.start(e)
	return e, e.answered
}

// answer returns what is known now.
func (w *watches[T]) answer(e *entry[T]) (object T, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case e.known && e.found:
		return e.object, nil
	case e.known:
		return object, apierr.Classify(apierrors.NewNotFound(v1.Resource(w.kind.name), e.name.Name))
	}
	e.missed = true
	why := e.failure
	if why == nil {
		why = &waitError{text: "timed out waiting for the condition", class: errdefs.ErrUnavailable}
	}
	return object, fmt.Errorf("failed to sync %s cache: %w", w.kind.name, why)
}

// forget drops the pod's references, and the objects that it was the last to refer to.
func (w *watches[T]) forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, e := range w.entries {
		if _, refers := e.pods[uid]; !refers {
			continue
		}
		delete(e.pods, uid)
		if len(e.pods) == 0 {
			w.stop(e)
			delete(w.entries, key)
		}
	}
}

// sweep ends the watches of objects that nobody has read for a while and that no volume shows. What is known is kept, in
// case that the API is away when it is read again.
func (w *watches[T]) sweep() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.entries {
		shown := slices.Contains(slices.Collect(maps.Values(e.pods)), true)
		if e.feed == nil || !e.known || shown || w.clock.Since(e.lastRead) <= idleTime {
			continue
		}
		w.stop(e)
		e.answered = make(chan struct{})
		e.known = e.found // that there was none says nothing of later
	}
}

// start begins to watch the object, unless it is watched or cannot change. Call it with the lock held.
func (w *watches[T]) start(e *entry[T]) {
	if e.feed != nil || e.final || w.ctx == nil || w.ended {
		return
	}
	ctx, cancel := context.WithCancel(w.ctx) //nolint:gosec // stop cancels it, or the end of run.
	e.feed = &feed[T]{watches: w, entry: e, cancel: cancel}
	w.metrics.watches.WithLabelValues(w.kind.name).Inc()
	reflector := e.feed.reflector()
	w.feeds.Go(func() { reflector.RunWithContext(ctx) })
}

// stop ends the watch if there is one. Call it with the lock held.
func (w *watches[T]) stop(e *entry[T]) {
	if e.feed == nil {
		return
	}
	e.feed.cancel()
	e.feed = nil
	w.metrics.watches.WithLabelValues(w.kind.name).Dec()
}
