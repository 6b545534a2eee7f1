// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package pleg

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/cri"
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

	listing   bool
	lastStart time.Time // of a relist
	lastErr   bool      // the last relist failed
	due       clock.Timer
}

// record is what is known to the events: what has been told of a pod.
type record struct {
	states map[string]state
	at     time.Time // of the newest list that was compared
	// again says that the last inspection failed.
	again bool
}

// flight is the work on one pod: an inspection, after a list of its own if it is on demand.
type flight struct {
	uid types.UID
	// snapshot is what to inspect, nil if on demand. Then before and again are those of the record: what did not change
	// is not inspected.
	snapshot *snapshot
	before   map[string]state
	again    bool
	started  time.Time
	// passed says that a relist saw the pod and left it alone because of the flight.
	passed bool
	// waiting says that it has not begun, counted that others wait for it.
	waiting, counted bool
}

func newLoop(p *PLEG) *loop {
	return &loop{
		p:        p,
		results:  make(chan func(context.Context)),
		records:  map[types.UID]*record{},
		inflight: map[types.UID]*flight{},
		slots:    inspectParallel,
		deferred: map[types.UID]time.Time{},
	}
}

func (l *loop) run(ctx context.Context) {
	l.due = l.p.o.Clock.NewTimer(l.p.o.RelistPeriod)
	defer l.due.Stop()
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
		case <-l.p.wake:
			for uid, asked := range l.p.takeRequests() {
				l.request(ctx, uid, asked)
			}
		}
		l.passSlow()
		l.startQueued(ctx)
		l.p.metrics.stale.Set(float64(l.stale()))
	}
}

// task runs work in a goroutine of its own, and what work returns in the loop.
func (l *loop) task(ctx context.Context, work func() func(context.Context)) {
	l.tasks.Go(func() {
		then := work()
		select {
		case l.results <- then:
		case <-ctx.Done():
		}
	})
}

// relist begins a list of everything. The next one begins a period after this one is worked in.
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
			l.due.Reset(l.p.o.RelistPeriod)
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
	l.p.setObservation(observe(pods), at)
	l.p.metrics.observe(pods, at)
	for _, s := range pods {
		l.consider(ctx, s)
	}
	for uid, r := range l.records {
		if pods[uid] == nil && l.inflight[uid] == nil && at.After(r.at) {
			l.vanished(uid, r)
		}
	}
	l.p.cache.complete(at)
}

// consider inspects a pod if it changed. One that is in flight is left to the next relist, and a list that is older than
// what is known of the pod says nothing.
func (l *loop) consider(ctx context.Context, s *snapshot) {
	r := l.record(s.uid)
	if f := l.inflight[s.uid]; f != nil {
		f.passed = true
		return
	}
	if s.at.Before(r.at) {
		return
	}
	if _, changed := compare(s.uid, r.states, s.states()); !changed && !r.again {
		r.at = s.at
		l.p.cache.confirm(s.uid, s.at)
		return
	}
	l.fly(ctx, &flight{uid: s.uid, snapshot: s})
}

func (l *loop) record(uid types.UID) *record {
	r := l.records[uid]
	if r == nil {
		r = &record{}
		l.records[uid] = r
	}
	return r
}

// vanished works in that a pod was absent from a complete list.
func (l *loop) vanished(uid types.UID, r *record) {
	events, _ := compare(uid, r.states, nil)
	delete(l.records, uid)
	l.p.cache.remove(uid)
	for _, e := range events {
		l.p.send(e)
	}
}

// request observes one pod on demand, unless that was asked for before a list that has been worked in already.
func (l *loop) request(ctx context.Context, uid types.UID, asked time.Time) {
	if l.inflight[uid] != nil {
		l.deferred[uid] = asked
		return
	}
	f := &flight{uid: uid}
	if r := l.records[uid]; r != nil {
		if r.at.After(asked) && !r.again {
			return
		}
		f.before, f.again = r.states, r.again
	}
	l.fly(ctx, f)
}

// fly begins the work on a pod, or queues it while too many others are busy.
func (l *loop) fly(ctx context.Context, f *flight) {
	l.inflight[f.uid] = f
	l.p.cache.begin(f.uid)
	f.waiting = true
	l.queue = append(l.queue, f)
	l.startQueued(ctx)
}

func (l *loop) startQueued(ctx context.Context) {
	for l.slots > 0 && len(l.queue) > 0 {
		f := l.queue[0]
		l.queue = l.queue[1:]
		l.slots--
		f.started, f.waiting, f.counted = l.p.o.Clock.Now(), false, true
		l.task(ctx, func() func(context.Context) { return l.observePod(ctx, f) })
	}
}

// passSlow lets others start in place of inspections that take long.
func (l *loop) passSlow() {
	for _, f := range l.inflight {
		if f.counted && l.p.o.Clock.Since(f.started) >= slowAfter {
			l.uncount(f)
		}
	}
}

func (l *loop) uncount(f *flight) {
	if f.counted {
		f.counted = false
		l.slots++
	}
}

// stale is the number of pods of which a change is known and its outcome is not.
func (l *loop) stale() int {
	n := 0
	for _, f := range l.inflight {
		if !f.waiting && !f.counted {
			n++
		}
	}
	for uid, r := range l.records {
		if r.again && l.inflight[uid] == nil {
			n++
		}
	}
	return n
}

// observePod does the work of a flight, in its task.
func (l *loop) observePod(ctx context.Context, f *flight) func(context.Context) {
	s := f.snapshot
	if s == nil {
		pods, _, err := l.p.list(ctx, f.uid)
		l.p.metrics.podDuration.Observe(l.p.o.Clock.Since(f.started).Seconds())
		if s = pods[f.uid]; s == nil {
			return func(ctx context.Context) { l.nothing(ctx, f, err) }
		}
		if _, changed := compare(f.uid, f.before, s.states()); !changed && !f.again {
			return func(ctx context.Context) { l.unchanged(ctx, f, s) }
		}
	}
	status, err := l.p.inspect(ctx, s)
	return func(ctx context.Context) { l.inspected(ctx, f, s, status, err) }
}

// nothing ends a flight that listed nothing of its pod. The next relist tells whether it is gone; a pod that a relist saw
// in the meantime stays pending until then.
func (l *loop) nothing(ctx context.Context, f *flight, err error) {
	if ctx.Err() == nil {
		l.p.o.Logger.Debug("Relisting a pod on demand found nothing", "uid", f.uid, "error", err)
	}
	if !f.passed {
		l.p.cache.end(f.uid)
	}
	l.land(ctx, f)
}

// unchanged ends a flight that found the pod as it was.
func (l *loop) unchanged(ctx context.Context, f *flight, s *snapshot) {
	l.record(f.uid).at = s.at
	l.p.cache.confirm(f.uid, s.at)
	l.land(ctx, f)
}

// inspected ends a flight. Only now is the change that led to it told: had the inspection failed, the next relist would
// find it again.
func (l *loop) inspected(ctx context.Context, f *flight, s *snapshot, status *cri.PodStatus, err error) {
	r := l.record(f.uid)
	if err != nil {
		if ctx.Err() == nil && !r.again {
			l.p.o.Logger.Warn("Inspecting a pod failed, doing so again after each relist", "pod", s.namespace+"/"+s.name, "uid", s.uid, "error", err)
		}
		r.again = true
		l.p.cache.fail(f.uid, s.at, err)
		l.land(ctx, f)
		return
	}
	now := s.states()
	events, changed := compare(f.uid, r.states, now)
	if !changed && r.again {
		events = append(events, Event{UID: f.uid, Type: PodSync})
	}
	r.states, r.at, r.again = now, s.at, false
	l.p.cache.set(status)
	for _, e := range events {
		l.p.send(e)
	}
	l.land(ctx, f)
}

// land frees the pod for further work, such as a request that came in between.
func (l *loop) land(ctx context.Context, f *flight) {
	delete(l.inflight, f.uid)
	l.uncount(f)
	if asked, ok := l.deferred[f.uid]; ok {
		delete(l.deferred, f.uid)
		l.request(ctx, f.uid, asked)
	}
}

// observe makes the records of a complete list.
func observe(pods map[types.UID]*snapshot) []PodRecord {
	out := make([]PodRecord, 0, len(pods))
	for _, s := range pods {
		out = append(out, PodRecord{UID: s.uid, Name: s.name, Namespace: s.namespace, Running: s.mayRun()})
	}
	return out
}
