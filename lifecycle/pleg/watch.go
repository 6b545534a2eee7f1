// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package pleg

import (
	"context"
	"time"

	"github.com/containerd/errdefs"

	"github.com/tombolo-dev/tombolo/host"
)

const (
	// DefaultSafetyPeriod is the time between relists while the host tells of changes.
	DefaultSafetyPeriod = 5 * time.Minute
	// DefaultDigestPeriod is how often the host tells that nothing changed.
	DefaultDigestPeriod = 30 * time.Second
	// firstWatchPause and longestWatchPause bound the pause before a watch that ended is begun again.
	firstWatchPause   = time.Second
	longestWatchPause = 30 * time.Second
)

// watching is the loop's side of a watch.
type watching struct {
	// live says that the watch has told what there is, and not ended since.
	live bool
	// moved says that what we know of a pod changed since the last message.
	moved bool
	// mismatches counts the digests in a row that were not ours.
	mismatches uint
	// told says that the log has how the watch stands.
	told bool
}

// period is the time to the next relist after one that ended with err.
func (l *loop) period(err error) time.Duration {
	if l.watch.live && err == nil {
		return l.p.o.SafetyPeriod
	}
	return l.p.o.RelistPeriod
}

// keepWatching watches until ctx ends. A host that cannot watch is asked again now and then: it may be replaced by a newer
// one.
func (l *loop) keepWatching(ctx context.Context) {
	req := host.WatchRequest{Labels: l.p.o.Labels, DigestPeriod: l.p.o.DigestPeriod}
	pause := firstWatchPause
	for {
		first := true
		err := l.p.o.Watcher.WatchPods(ctx, req, func(pods host.PodsChanged) error {
			pause = firstWatchPause
			begins := first
			first = false
			if !l.post(ctx, func(ctx context.Context) { l.changed(ctx, begins, pods) }) {
				return ctx.Err()
			}
			return nil
		})
		if !l.post(ctx, func(context.Context) { l.watchEnded(err) }) {
			return
		}
		wait := pause
		if errdefs.IsNotImplemented(err) {
			wait = l.p.o.SafetyPeriod
		}
		timer := l.p.o.Clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
		pause = min(2*pause, longestWatchPause)
	}
}

// changed works in what the host tells. The first message of a watch leads to a relist of ours that begins after it:
// whatever changes from then on is told. The pods a later one names are looked at one by one, unless their digests are known.
func (l *loop) changed(ctx context.Context, begins bool, pods host.PodsChanged) {
	if begins {
		l.p.o.Logger.Info("The host tells which pods change", "pods", len(pods.UIDs))
		l.watch = watching{live: true}
		l.once = l.listing
		l.relist(ctx)
		return
	}
	now := l.p.o.Clock.Now()
	for i, uid := range pods.UIDs {
		t := told{since: now, at: now}
		if len(pods.Digests) == len(pods.UIDs) {
			t.digest = &pods.Digests[i]
		}
		l.hear(ctx, uid, t)
	}
	quiet := len(pods.UIDs) == 0 && !l.watch.moved && !l.listing && len(l.inflight) == 0 && len(l.told) == 0
	l.watch.moved = false
	l.count()
	if quiet {
		l.checkDigest(ctx, pods.Digest, now)
	}
}

// checkDigest compares what the host sees with what we know, at a moment at which nothing is under way. One that differs leads
// to a relist. If that does not help, the next ones do so ever more rarely.
func (l *loop) checkDigest(ctx context.Context, digest uint64, now time.Time) {
	if digest == l.digest() {
		l.watch.mismatches = 0
		l.p.touch(now)
		return
	}
	l.watch.mismatches++
	if n := l.watch.mismatches; n&(n-1) == 0 {
		l.p.metrics.mismatches.Inc()
		l.p.o.Logger.Warn("The host sees other containers than we know of, relisting", "times", n)
		l.relist(ctx)
	}
}

// digest is that of everything the newest lists told.
func (l *loop) digest() uint64 {
	var objects []host.ObjectState
	for _, r := range l.records {
		objects = append(objects, r.listed.objects()...)
	}
	return host.PodsDigest(objects)
}

// watchEnded goes back to relists at short intervals.
func (l *loop) watchEnded(err error) {
	log := l.p.o.Logger.Debug
	switch {
	case l.watch.live:
		log = l.p.o.Logger.Warn
	case !l.watch.told && errdefs.IsNotImplemented(err):
		log = l.p.o.Logger.Info
	}
	log("The host does not tell which pods change, relisting at short intervals", "error", err)
	l.watch = watching{told: true}
	if !l.listing {
		l.due.Reset(l.p.o.RelistPeriod)
	}
}
