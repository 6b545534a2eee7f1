// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package pleg

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// loop is the state of Run. Only its goroutine touches it; calls are made by tasks, whose results come back to it.
type loop struct {
	p       *PLEG
	tasks   sync.WaitGroup
	results chan func(context.Context) // what a finished task lets the loop do

	records  map[types.UID]*record
	inflight map[types.UID]*flight
	queue    []*flight
	slots    int                     // inspections that may start before others must wait
	deferred map[types.UID]time.Time // requests that wait for the pod's flight
	told     map[types.UID]told      // what the host told that waits for the pod's flight, or for its release
	retries  map[types.UID]*retry    // pods whose last observation failed
	retryDue clock.Timer             // for the earliest of them

	listing   bool
	once      bool      // relist anew as soon as the relist under way is over
	lastStart time.Time // of a relist
	lastErr   bool      // the last relist failed
	due       clock.Timer

	watch watching
}

// record is what is known to the events: what has been told of a pod.
type record struct {
	states map[string]state
	at     time.Time // of the newest list that was compared
	// again says that the last inspection failed, or that another one was asked for.
	again bool
	// listed is what the newest list told of the pod, also one that could not be compared yet. It is never nil.
	listed *snapshot
}

func newLoop(p *PLEG) *loop {
	return &loop{
		p:        p,
		results:  make(chan func(context.Context)),
		records:  map[types.UID]*record{},
		inflight: map[types.UID]*flight{},
		slots:    inspectParallel,
		deferred: map[types.UID]time.Time{},
		told:     map[types.UID]told{},
		retries:  map[types.UID]*retry{},
	}
}

func (l *loop) run(ctx context.Context) {
	l.due = l.p.o.Clock.NewTimer(l.p.o.RelistPeriod)
	defer l.due.Stop()
	l.retryDue = l.p.o.Clock.NewTimer(longestRetry)
	defer l.retryDue.Stop()
	if l.p.o.Watcher != nil {
		l.tasks.Go(func() { l.keepWatching(ctx) })
	}
	l.relist(ctx)
	for {
		// A relist goes before requests, so that it is not starved by them.
		select {
		case <-ctx.Done():
			return
		case <-l.due.C():
			l.relist(ctx)
			continue
		default:
		}
		select {
		case <-ctx.Done():
			return
		case <-l.due.C():
			l.relist(ctx)
		case then := <-l.results:
			then(ctx)
		case <-l.retryDue.C():
			l.retryFailed(ctx)
		case <-l.p.wake:
			for uid, asked := range l.p.takeRequests() {
				l.request(ctx, uid, asked)
			}
			l.heedAll(ctx)
		}
		l.passSlow()
		l.startQueued(ctx)
		l.p.metrics.stale.Set(float64(l.stale()))
	}
}

// task runs work in a goroutine of its own, and what work returns in the loop.
func (l *loop) task(ctx context.Context, work func() func(context.Context)) {
	l.tasks.Go(func() {
		l.post(ctx, work())
	})
}

// post lets the loop do something. It says whether the loop took it, which it does unless ctx ended.
func (l *loop) post(ctx context.Context, then func(context.Context)) bool {
	select {
	case l.results <- then:
		return true
	case <-ctx.Done():
		return false
	}
}

// relist begins a list of everything. The next one begins a period after this one is worked in: a short one, or, while the
// host tells of changes, a long one.
func (l *loop) relist(ctx context.Context) {
	if l.listing {
		return
	}
	l.listing = true
	start := l.p.o.Clock.Now()
	if !l.lastStart.IsZero() {
		l.p.metrics.interval.Observe(start.Sub(l.lastStart).Seconds())
	}
	l.lastStart = start
	l.task(ctx, func() func(context.Context) {
		pods, at, err := l.p.list(ctx, "")
		return func(ctx context.Context) {
			l.relisted(ctx, pods, at, err)
			l.p.metrics.duration.Observe(l.p.o.Clock.Since(start).Seconds())
			l.listing = false
			l.due.Reset(l.period(err))
			if l.once {
				l.once = false
				l.relist(ctx)
			}
		}
	})
}

// relisted works a complete list in. A failed one changes nothing.
func (l *loop) relisted(ctx context.Context, pods map[types.UID]*snapshot, at time.Time, err error) {
	if err != nil {
		if ctx.Err() == nil && !l.lastErr {
			l.p.o.Logger.Warn("Relisting failed, keeping the last observation", "error", err)
		}
		l.lastErr = true
		return
	}
	if l.lastErr {
		l.p.o.Logger.Info("Relisting succeeded again")
		l.lastErr = false
	}
	for _, s := range pods {
		l.consider(ctx, s)
	}
	for uid, r := range l.records {
		if pods[uid] == nil && l.inflight[uid] == nil && at.After(r.at) {
			l.vanished(uid, r)
		}
	}
	for uid := range l.retries {
		if l.records[uid] == nil && l.inflight[uid] == nil {
			l.forgive(uid)
		}
	}
	l.count()
	l.p.cache.complete(at)
	l.p.setComplete(at)
}

// count publishes how much there is.
func (l *loop) count() {
	snapshots := make([]*snapshot, 0, len(l.records))
	for _, r := range l.records {
		snapshots = append(snapshots, r.listed)
	}
	l.p.metrics.count(snapshots)
}

// consider inspects a pod if it changed. One that is in flight is looked at again after it, and a list that is older than
// what is known of the pod says nothing.
func (l *loop) consider(ctx context.Context, s *snapshot) {
	r := l.note(s)
	if f := l.inflight[s.uid]; f != nil {
		f.passed = true
		l.postpone(s.uid, s.at)
		return
	}
	if s.at.Before(r.at) || l.waits(s) {
		return
	}
	if _, changed := compare(s.uid, r.states, s.states()); changed || r.again {
		l.fly(ctx, &flight{uid: s.uid, snapshot: s})
	} else {
		r.at = s.at
		l.p.cache.confirm(s.uid, s.at)
		l.forgive(s.uid)
	}
}

// note keeps what a list told of a pod.
func (l *loop) note(s *snapshot) *record {
	r := l.records[s.uid]
	if r == nil {
		r = &record{}
		l.records[s.uid] = r
	}
	if r.listed == nil || r.listed.at.Before(s.at) {
		r.listed = s
		l.p.setPod(s)
		l.watch.moved = true
	}
	return r
}

// vanished works in that a pod was absent from a complete list.
func (l *loop) vanished(uid types.UID, r *record) {
	events, _ := compare(uid, r.states, nil)
	delete(l.records, uid)
	l.forgive(uid)
	l.watch.moved = true
	l.p.dropPod(uid)
	l.p.cache.remove(uid)
	for _, e := range events {
		l.p.send(e)
	}
}
