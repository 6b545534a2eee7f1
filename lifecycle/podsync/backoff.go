// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/cri"
)

// The back-off of a container that ends again and again: it starts with the first and doubles with each start up to the
// second, the kubelet's crash-loop back-off. It starts anew after a container ran for twice the maximum.
const (
	initialBackoff = 10 * time.Second
	maxBackoff     = 300 * time.Second
)

// crashLoop delays the restarts of containers. It measures by our clock alone. The host's clock, which the runtime's
// times come from, may be an hour off: where it can, it uses only the difference of two of its times, namely how long a
// container ran.
type crashLoop struct {
	clock clock.Clock
	// offset is how far the host's clock is ahead of ours.
	offset func() time.Duration
	delay  *flowcontrol.Backoff

	mu   sync.Mutex
	pods map[types.UID]*podLoop
}

type podLoop struct {
	// keys are all that the pod has in delay.
	keys map[string]bool
	runs map[string]*lastRun // by container name
}

// lastRun is what our clock says of the last run of a container: when the container with the one id was started by us,
// and when the container with the other id ended.
type lastRun struct {
	startedID string
	startedAt time.Time
	endedID   string
	endedAt   time.Time
}

func newCrashLoop(c clock.Clock, offset func() time.Duration) *crashLoop {
	delay := flowcontrol.NewBackOff(initialBackoff, maxBackoff)
	delay.Clock = c
	if offset == nil {
		offset = func() time.Duration { return 0 }
	}
	return &crashLoop{clock: c, offset: offset, delay: delay, pods: map[types.UID]*podLoop{}}
}

// admit says whether the container may be started again after the end of its newest ended record (nil if there is none,
// which never delays). If not, it returns when it may and how long the delay is; if so, the next delay is longer.
func (l *crashLoop) admit(pod *v1.Pod, c *v1.Container, ended *cri.ContainerStatus) (until time.Time, delay time.Duration, ok bool) {
	if ended == nil {
		return time.Time{}, 0, true
	}
	key := backoffKey(pod, c)
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.pod(pod.UID)
	at := p.run(c.Name).endOf(ended, l.clock.Now(), l.offset())
	if l.delay.IsInBackOffSince(key, at) {
		delay = l.delay.Get(key)
		return at.Add(delay), delay, false
	}
	p.keys[key] = true
	l.delay.Next(key, at)
	return time.Time{}, 0, true
}

// started notes that the container with the id is being started now.
func (l *crashLoop) started(uid types.UID, name, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	run := l.pod(uid).run(name)
	run.startedID, run.startedAt = id, l.clock.Now()
}

// everStarted says whether the named container was started by us.
func (l *crashLoop) everStarted(uid types.UID, name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.pods[uid]
	return p != nil && p.runs[name] != nil && p.runs[name].startedID != ""
}

// forget drops all of a pod.
func (l *crashLoop) forget(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.pods[uid]; p != nil {
		for key := range p.keys {
			l.delay.DeleteEntry(key)
		}
		delete(l.pods, uid)
	}
}

// pod returns the entry of a pod. The lock is held.
func (l *crashLoop) pod(uid types.UID) *podLoop {
	if l.pods[uid] == nil {
		l.pods[uid] = &podLoop{keys: map[string]bool{}, runs: map[string]*lastRun{}}
	}
	return l.pods[uid]
}

func (p *podLoop) run(name string) *lastRun {
	if p.runs[name] == nil {
		p.runs[name] = &lastRun{}
	}
	return p.runs[name]
}

// endOf returns when the record's container ended. It gives the same answer every time for one record.
func (r *lastRun) endOf(record *cri.ContainerStatus, now time.Time, offset time.Duration) time.Time {
	if r.endedID == record.ID {
		return r.endedAt
	}
	var started time.Time
	if r.startedID == record.ID {
		started = r.startedAt
	}
	r.endedID, r.endedAt = record.ID, endedAt(record, started, now, offset)
	return r.endedAt
}

// endedAt translates the end of a container to our clock. started is when we started it, zero if another process did:
// then there is nothing better than the host's own time and how far it was last seen ahead of ours. An end in the
// future is now.
func endedAt(record *cri.ContainerStatus, started, now time.Time, offset time.Duration) time.Time {
	end := record.FinishedAt.Add(-offset)
	if !started.IsZero() {
		end = started
		// One that could not be started ended when it began.
		if !record.StartedAt.IsZero() && record.FinishedAt.After(record.StartedAt) {
			end = started.Add(record.FinishedAt.Sub(record.StartedAt))
		}
	}
	if end.After(now) {
		return now
	}
	return end
}

// backoffKey changes with whatever may mend a container that cannot run: its image and its resources.
func backoffKey(pod *v1.Pod, c *v1.Container) string {
	resources, _ := json.Marshal(c.Resources) // plain quantities: it cannot fail
	return fmt.Sprintf("%s/%s/%s/%s", pod.UID, c.Name, c.Image, resources)
}

// newestEnded returns the newest record of the container that has ended, nil if there is none.
func newestEnded(status *cri.PodStatus, name string) *cri.ContainerStatus {
	for i := range status.Containers {
		record := &status.Containers[i]
		if record.Name == name && record.State == cri.ContainerExited {
			return record
		}
	}
	return nil
}
