// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package pleg

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/host"
)

// holdFor is how long Hold can put off a look. Who holds a pod may be long about it, and others wish to see what runs in it.
const holdFor = 5 * time.Second

// told is what the host told of a pod and nobody has looked at yet.
type told struct {
	// since is when the host told first, at when it did last.
	since, at time.Time
	// digest is that of the pod's sandboxes and containers, nil if the host says only that something changed.
	digest *uint64
}

// Hold puts off, until release is called or some seconds have passed, to look at a pod only because the host tells that it
// changed: who changes it looks at it anyway when it is done. Looks that are asked for are not put off. One holds a pod at a
// time, and calls release after it has asked for a look of its own.
func (p *PLEG) Hold(uid types.UID) (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held[uid] = struct{}{}
	return func() {
		p.mu.Lock()
		delete(p.held, uid)
		p.mu.Unlock()
		p.poke()
	}
}

func (p *PLEG) isHeld(uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, held := p.held[uid]
	return held
}

// hear takes what the host tells of a pod.
func (l *loop) hear(ctx context.Context, uid types.UID, t told) {
	before, waits := l.told[uid]
	if waits {
		t.since = before.since
	}
	l.told[uid] = t
	if !waits && l.p.isHeld(uid) {
		l.heedLater(ctx, uid)
	}
	l.heed(ctx, uid)
}

// heed looks at a pod of which the host told, unless the host told what is known, or somebody has looked since. It does
// nothing while the pod is being looked at or is held.
func (l *loop) heed(ctx context.Context, uid types.UID) {
	t, ok := l.told[uid]
	if !ok || l.inflight[uid] != nil || l.p.isHeld(uid) && l.p.o.Clock.Since(t.since) < holdFor {
		return
	}
	delete(l.told, uid)
	if l.knows(uid, t.digest) {
		return
	}
	l.forgive(uid)
	l.request(ctx, uid, t.at)
}

// heedAll heeds what waits because a pod was held.
func (l *loop) heedAll(ctx context.Context) {
	for uid := range l.told {
		l.heed(ctx, uid)
	}
}

// heedLater heeds what the host told of a pod that is held too long.
func (l *loop) heedLater(ctx context.Context, uid types.UID) {
	l.tasks.Go(func() {
		timer := l.p.o.Clock.NewTimer(holdFor)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C():
			l.post(ctx, func(ctx context.Context) { l.heed(ctx, uid) })
		}
	})
}

// knows says whether the digest is that of the pod as it was inspected last.
func (l *loop) knows(uid types.UID, digest *uint64) bool {
	if digest == nil {
		return false
	}
	r := l.records[uid]
	if r == nil {
		return *digest == host.PodsDigest(nil)
	}
	return !r.again && *digest == host.PodsDigest(r.listed.objects())
}

// objects are what a list told, as the host sees it.
func (s *snapshot) objects() []host.ObjectState {
	out := make([]host.ObjectState, 0, len(s.sandboxes)+len(s.containers))
	for _, box := range s.sandboxes {
		out = append(out, host.ObjectState{ID: box.GetId(), State: int32(box.GetState())})
	}
	for _, c := range s.containers {
		out = append(out, host.ObjectState{ID: c.GetId(), State: int32(c.GetState())})
	}
	return out
}
