// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// snapshot is what one sync works with.
type snapshot struct {
	uid  types.UID
	name types.NamespacedName
	// seen is the newest copy of the object that was observed, known the same if it can be compared with.
	seen, known *v1.Pod
	status      v1.PodStatus
	version     uint64
	changed     time.Time
	finished    bool
}

// result is how a sync ended. If err is nil the API has the version of the snapshot, unless gone.
type result struct {
	// api is the object as the API has it, nil if it was not read.
	api      *v1.Pod
	withheld bool
	// gone says that there is no object with the UID any more, deleted that this sync removed it.
	gone, deleted bool
	err           error
}

// sync brings one pod's status to the API, and deletes the object if its time has come.
func (m *Manager) sync(ctx context.Context, e *entry) {
	m.mu.Lock()
	s := snapshot{
		uid: e.uid, name: e.name, seen: e.api, known: e.known(), status: e.status, version: e.version, changed: e.changed, finished: e.finished,
	}
	e.changed = time.Time{}
	m.mu.Unlock()

	r := m.write(ctx, s)
	releasable := r.withheld && !m.couldRun(s.uid)

	m.mu.Lock()
	defer m.mu.Unlock()
	e.syncing = false
	if ctx.Err() != nil || m.pods[e.uid] != e {
		return
	}
	log := m.log.With("pod", e.name.String(), "uid", e.uid)
	switch {
	case r.deleted:
		log.Info("object deleted")
		delete(m.pods, e.uid)
	case r.gone && e.api != s.seen:
		m.enqueue(e) // it was made meanwhile: a mirror pod, of which the API says that it is not there until it is
	case r.gone:
		log.Debug("object is gone")
		e.gone = true
	case r.err != nil:
		if !s.changed.IsZero() {
			e.changed = s.changed
		}
		m.retry(e, r.err)
	default:
		m.accepted(e, s, r)
		if e.again || releasable || e.version > e.sent && e.due.IsZero() {
			m.enqueue(e)
		}
	}
}

// accepted notes what the API has now.
func (m *Manager) accepted(e *entry, s snapshot, r result) {
	if e.failures > 1 {
		m.log.Info("status accepted again", "pod", e.name.String(), "uid", e.uid, "failures", e.failures)
	}
	e.failures = 0
	if !isOlder(r.api, e.api) {
		e.api = r.api
	}
	e.accepted = &r.api.Status
	e.withheld = r.withheld
	e.sent = s.version
	if !s.changed.IsZero() {
		m.metrics.syncDuration.Observe(m.clock.Since(s.changed).Seconds())
	}
	if e.differs() {
		m.plan(e, observeDelay)
	}
}

// retry plans the next attempt after a failure. Only the first of a row is loud.
func (m *Manager) retry(e *entry, err error) {
	e.failures++
	pause := longestPause
	if shift := e.failures - 1; shift < 16 {
		pause = min(firstPause<<shift, longestPause)
	}
	log := m.log.With("pod", e.name.String(), "uid", e.uid, "failures", e.failures, "pause", pause, "error", err)
	if e.failures == 1 {
		log.Warn("status not accepted, trying again")
	} else {
		log.Debug("status not accepted, trying again")
	}
	e.due = m.clock.Now().Add(pause)
}

// write sends what differs from the object as it is known, provided that it still is that version. Only if it is not, or
// none is known, the object is read.
func (m *Manager) write(ctx context.Context, s snapshot) result {
	if s.known != nil {
		r := m.send(ctx, s, s.known, s.known.ResourceVersion)
		// A refusal may be about another pod of the name, which is not on this node.
		if !errdefs.IsConflict(r.err) && !errdefs.IsPermissionDenied(r.err) {
			return r
		}
	}
	api, err := m.get(ctx, s)
	if err != nil {
		return m.failed("get", fmt.Errorf("reading the pod: %w", err))
	}
	if api.UID != s.uid {
		return result{gone: true}
	}
	return m.send(ctx, s, api, "")
}

// send sends what differs from a copy of the object, if the API has that version or none is named, and deletes the object if
// it may go.
func (m *Manager) send(ctx context.Context, s snapshot, api *v1.Pod, version string) result {
	couldRun := m.couldRun(s.uid)
	merged, withheld := merge(&api.Status, &s.status, couldRun, m.clock.Now())
	diff, err := patch(&api.Status, merged)
	if err != nil {
		return m.failed("patch", err)
	}
	if diff != nil {
		if api, err = m.patch(ctx, s, version, diff); err != nil {
			return m.failed("patch", fmt.Errorf("patching the status: %w", err))
		}
	}
	if s.finished && !couldRun && api.DeletionTimestamp != nil && podrules.Terminal(api.Status.Phase) {
		if err := m.delete(ctx, s); err != nil {
			return m.failed("delete", fmt.Errorf("deleting the object: %w", err))
		}
		return result{deleted: true}
	}
	return result{api: api, withheld: withheld}
}

// failed tells an object that is gone from a call that has to be repeated. A conflict is repeated: the next attempt
// reads the object and sees whether it is another one.
func (m *Manager) failed(operation string, err error) result {
	if errdefs.IsNotFound(err) {
		return result{gone: true}
	}
	m.metrics.apiErrors.WithLabelValues(operation).Inc()
	return result{err: err}
}

func (m *Manager) get(ctx context.Context, s snapshot) (*v1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, m.callTimeout)
	defer cancel()
	return m.sink.GetPod(ctx, s.name.Namespace, s.name.Name)
}

func (m *Manager) patch(ctx context.Context, s snapshot, version string, diff []byte) (*v1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, m.callTimeout)
	defer cancel()
	return m.sink.PatchPodStatus(ctx, s.name, s.uid, version, diff)
}

func (m *Manager) delete(ctx context.Context, s snapshot) error {
	ctx, cancel := context.WithTimeout(ctx, m.callTimeout)
	defer cancel()
	return m.sink.DeletePod(ctx, s.name, s.uid)
}
