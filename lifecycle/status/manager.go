// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// Options are what a Manager needs. Sink and CouldHaveRunningContainers are required.
type Options struct {
	Sink Sink
	// CouldHaveRunningContainers says whether a container of the pod may run now. It must not block.
	CouldHaveRunningContainers func(types.UID) bool
	// Clock is the real clock if nil.
	Clock clock.WithTicker
	// Logger discards if nil.
	Logger *slog.Logger
	// Registerer takes the metrics; nil means none.
	Registerer prometheus.Registerer
	// Parallel is how many pods may be written at once; 0 means 16.
	Parallel int
	// CallTimeout bounds each call to the Sink; 0 means 30 seconds.
	CallTimeout time.Duration
}

const (
	defaultParallel    = 16
	defaultCallTimeout = 30 * time.Second
	// passPeriod is the kubelet's period of looking at every pod.
	passPeriod = 10 * time.Second
	// soon is how long SetSoon waits for a status to be written with.
	soon = 2 * time.Second
	// observeDelay keeps a fight with another writer from becoming a busy loop.
	observeDelay = time.Second
	// firstPause and longestPause bound the pause after a failure, which doubles with each. The kubelet repeats every 10 s.
	firstPause   = 250 * time.Millisecond
	longestPause = 10 * time.Second
)

// Manager keeps the newest status of each pod and writes it to the API until it is accepted.
type Manager struct {
	sink        Sink
	couldRun    func(types.UID) bool
	clock       clock.WithTicker
	log         *slog.Logger
	metrics     *metrics
	parallel    int
	callTimeout time.Duration
	// wake tells Run that there is something to do. Its capacity is one.
	wake chan struct{}

	mu   sync.Mutex
	pods map[types.UID]*entry
	// ready has the UIDs whose turn it is, oldest first.
	ready []types.UID
	// refused is when the first of a row of impossible statuses of a pod was dropped.
	refused map[types.UID]time.Time
}

// entry is what is known of one pod. Manager.mu guards it.
type entry struct {
	uid  types.UID
	name types.NamespacedName
	// status is the newest; it is replaced, never changed. version counts what must be sent: sent is the last version that
	// the API has accepted.
	status        v1.PodStatus
	version, sent uint64
	// changed is when the first change came up that no write has taken along yet, zero if there is none.
	changed time.Time
	// finished says that the pod's resources are released: its object may be deleted.
	finished bool
	// gone says that the object with this UID does not exist any more: there is nothing to write to.
	gone bool
	// withheld says that a terminal phase waits for the last container to stop.
	withheld bool
	// api is the newest copy of the object that was seen, from the watch or in an answer. One without a resource version is
	// that of a static pod, which is not from the API.
	api *v1.Pod
	// accepted is the status that the API had after the last write. It may lack what an older API server does not know.
	accepted *v1.PodStatus

	queued, syncing bool
	// again says that something changed while a sync was under way.
	again bool
	// due is when the pod is to be looked at again, zero if nothing is planned. failures counts since the last success.
	due      time.Time
	failures int
}

// NewManager makes a Manager that does nothing until Run is called.
func NewManager(o Options) *Manager {
	m := &Manager{
		sink:        o.Sink,
		couldRun:    o.CouldHaveRunningContainers,
		clock:       o.Clock,
		log:         o.Logger,
		metrics:     newMetrics(o.Registerer),
		parallel:    o.Parallel,
		callTimeout: o.CallTimeout,
		wake:        make(chan struct{}, 1),
		pods:        map[types.UID]*entry{},
		refused:     map[types.UID]time.Time{},
	}
	if m.clock == nil {
		m.clock = clock.RealClock{}
	}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	if m.parallel <= 0 {
		m.parallel = defaultParallel
	}
	if m.callTimeout <= 0 {
		m.callTimeout = defaultCallTimeout
	}
	return m
}

// Get returns the newest status of a pod, as it was set. It may not have been written yet.
func (m *Manager) Get(uid types.UID) (v1.PodStatus, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.pods[uid]
	if e == nil {
		return v1.PodStatus{}, false
	}
	return *e.status.DeepCopy(), true
}

// Phase returns the phase of the newest status of a pod, "" if there is none.
func (m *Manager) Phase(uid types.UID) v1.PodPhase {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.pods[uid]; e != nil {
		return e.status.Phase
	}
	return ""
}

// Set takes the newest status of a pod to be written. Several before a write make one write. Whatever is set, a terminal
// phase stays as it was first set or as the API has it, and so does the start time; a status in which a container that
// ended for good has not ended is dropped, unless it goes on being set for some seconds. A status that says nothing new is not written, unless the pod is being
// deleted.
func (m *Manager) Set(pod *v1.Pod, st v1.PodStatus) {
	m.update(pod, false, func(*v1.PodStatus) v1.PodStatus { return *st.DeepCopy() }, m.enqueue)
}

// SetSoon is Set for a status that another one follows, most often at once: they are written together if that one comes within
// some seconds.
func (m *Manager) SetSoon(pod *v1.Pod, st v1.PodStatus) {
	m.update(pod, false, func(*v1.PodStatus) v1.PodStatus { return *st.DeepCopy() }, func(e *entry) {
		m.plan(e, soon)
		m.poke()
	})
}

// Finish makes the last status final, with every container ended and a terminal phase, and says that all the pod had is
// released. From now on its object is deleted as soon as the API has accepted a terminal phase and the pod is being
// deleted. Finish may be called again, and for pods that were rejected.
func (m *Manager) Finish(pod *v1.Pod) {
	m.update(pod, true, func(last *v1.PodStatus) v1.PodStatus { return final(pod, last, m.clock.Now()) }, m.enqueue)
}

// update replaces the status of a pod by one that is made, as a fresh copy, from the last, and gives the pod a turn.
func (m *Manager) update(pod *v1.Pod, finish bool, change func(last *v1.PodStatus) v1.PodStatus, turn func(*entry)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.pods[pod.UID]
	last := &pod.Status
	if e != nil {
		last = &e.status
	}
	log := m.log.With("pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID)
	next := change(last)
	if m.refuse(pod, last, &next) {
		return
	}
	m.keep(pod, last, &next)
	m.metrics.countEnds(last, &next)
	if last.Phase != next.Phase {
		log.Info("phase changed", "from", last.Phase, "to", next.Phase, "reason", next.Reason)
	}
	if e == nil {
		e = &entry{uid: pod.UID, name: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, api: pod}
		m.pods[pod.UID] = e
	} else if equal(&e.status, &next) && !e.withheld && !finish && pod.DeletionTimestamp == nil {
		return
	}
	e.finished = e.finished || finish
	e.status = next
	e.version++
	if e.changed.IsZero() {
		e.changed = m.clock.Now()
	}
	turn(e)
}

// keep undoes in a status what must not change.
func (m *Manager) keep(pod *v1.Pod, last, next *v1.PodStatus) {
	for _, known := range []*v1.PodStatus{&pod.Status, last} {
		if podrules.Terminal(known.Phase) && known.Phase != next.Phase {
			next.Phase, next.Reason, next.Message = known.Phase, known.Reason, known.Message
			break
		}
	}
	next.ObservedGeneration = max(next.ObservedGeneration, last.ObservedGeneration, pod.Generation)
	if last.StartTime != nil && !last.StartTime.IsZero() {
		next.StartTime = last.StartTime.DeepCopy()
	}
	keepTransitionTimes(next.Conditions, last.Conditions, m.clock.Now())
	normalize(pod, next)
}

// Observe takes the newest copy of a pod from the API. If another writer changed our part of it, it is written again;
// if the object may be deleted, it is. A pod of which no status was set is not looked at.
func (m *Manager) Observe(pod *v1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.pods[pod.UID]
	if e == nil || isOlder(pod, e.api) {
		return
	}
	e.api = pod
	switch {
	case e.gone, e.mayDelete():
		e.gone = false
		m.enqueue(e)
	case e.version == e.sent && e.differs():
		m.plan(e, observeDelay)
		m.poke()
	}
}

// Retain drops all pods but the given ones.
func (m *Manager) Retain(desired map[types.UID]struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid := range m.pods {
		if _, ok := desired[uid]; !ok {
			delete(m.pods, uid)
		}
	}
	for uid := range m.refused {
		if _, ok := desired[uid]; !ok {
			delete(m.refused, uid)
		}
	}
}

// known returns a copy of the object that the next write may be made from, nil if it has to be read: because the API has
// never shown it, or the last call failed, of which nobody knows what it did.
func (e *entry) known() *v1.Pod {
	if e.api == nil || e.api.ResourceVersion == "" || e.failures > 0 {
		return nil
	}
	return e.api
}

// differs says whether another writer has changed our part of the API's copy since our last write.
func (e *entry) differs() bool {
	return e.api != nil && e.accepted != nil && !equal(&e.api.Status, e.accepted)
}

// mayDelete says whether it is time to look whether the object can be removed.
func (e *entry) mayDelete() bool {
	return e.finished && e.api != nil && e.api.DeletionTimestamp != nil && podrules.Terminal(e.api.Status.Phase)
}

// isOlder says whether a is an older version of an object than b. Versions that cannot be compared are taken as newer.
func isOlder(a, b *v1.Pod) bool {
	if b == nil {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order < 0
}
