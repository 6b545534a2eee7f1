// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package pleg

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/cri"
)

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

// request observes one pod on demand, unless that was asked for before a list that has been worked in already.
func (l *loop) request(ctx context.Context, uid types.UID, asked time.Time) {
	if l.inflight[uid] != nil {
		l.postpone(uid, asked)
		return
	}
	if r := l.records[uid]; l.p.takeInspection(uid) && r != nil {
		r.again = true
	}
	if r := l.retries[uid]; r != nil && l.p.o.Clock.Now().Before(r.at) {
		return // it is looked at then
	}
	f := &flight{uid: uid}
	if r := l.records[uid]; r != nil {
		if r.at.After(asked) && !r.again {
			return
		}
		f.before, f.again = r.states, r.again
	} else if l.p.cache.absentSince(uid).After(asked) {
		return
	}
	l.fly(ctx, f)
}

// postpone lets a request wait for the flight of its pod.
func (l *loop) postpone(uid types.UID, asked time.Time) {
	if before, ok := l.deferred[uid]; !ok || before.Before(asked) {
		l.deferred[uid] = asked
	}
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
		pods, at, err := l.p.list(ctx, f.uid)
		l.p.metrics.podDuration.Observe(l.p.o.Clock.Since(f.started).Seconds())
		if err != nil {
			return func(ctx context.Context) { l.unlisted(ctx, f, err) }
		}
		if s = pods[f.uid]; s == nil {
			return func(ctx context.Context) { l.absent(ctx, f, at) }
		}
		if _, changed := compare(f.uid, f.before, s.states()); !changed && !f.again {
			return func(ctx context.Context) { l.unchanged(ctx, f, s) }
		}
	}
	status, err := l.p.inspect(ctx, s)
	return func(ctx context.Context) { l.inspected(ctx, f, s, status, err) }
}

// unlisted ends a flight whose list failed, which says nothing of the pod. A pod that a relist saw in the meantime stays
// pending until it was looked at.
func (l *loop) unlisted(ctx context.Context, f *flight, err error) {
	if ctx.Err() == nil {
		l.p.o.Logger.Debug("Relisting a pod on demand failed", "uid", f.uid, "error", err)
		l.retryLater(f.uid, nil)
	}
	if !f.passed {
		l.p.cache.end(f.uid)
	}
	l.land(ctx, f)
}

// absent ends a flight whose list was complete and had nothing of the pod. If a relist saw the pod in the meantime, a
// further look follows.
func (l *loop) absent(ctx context.Context, f *flight, at time.Time) {
	if r := l.records[f.uid]; r != nil && at.After(r.at) && at.After(r.listed.at) {
		l.vanished(f.uid, r)
	}
	if !f.passed && l.records[f.uid] == nil {
		l.forgive(f.uid)
		l.p.cache.absent(f.uid, at)
		l.p.touch(at)
	}
	l.land(ctx, f)
}

// unchanged ends a flight that found the pod as it was.
func (l *loop) unchanged(ctx context.Context, f *flight, s *snapshot) {
	l.note(s).at = s.at
	l.forgive(f.uid)
	l.p.cache.confirm(f.uid, s.at)
	l.p.touch(s.at)
	l.land(ctx, f)
}

// inspected ends a flight. Only now is the change that led to it told: had the inspection failed, the next one would find
// it again.
func (l *loop) inspected(ctx context.Context, f *flight, s *snapshot, status *cri.PodStatus, err error) {
	r := l.note(s)
	l.p.touch(s.at)
	if err != nil {
		if ctx.Err() == nil {
			if !r.again {
				l.p.o.Logger.Warn("Inspecting a pod failed, trying again", "pod", s.namespace+"/"+s.name, "uid", s.uid, "error", err)
			}
			l.retryLater(f.uid, s.states())
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
	if killedSince(r.states, status) {
		l.inspectLater(ctx, f.uid)
	}
	r.states, r.at, r.again = now, s.at, false
	l.forgive(f.uid)
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
	l.heed(ctx, f.uid)
}
