// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package pleg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
)

// What the kubelet's generic PLEG uses.
const (
	// DefaultRelistPeriod is the time from the end of one relist to the start of the next.
	DefaultRelistPeriod = time.Second
	// DefaultRelistThreshold is how old the last successful list may be before Healthy complains.
	DefaultRelistThreshold = 3 * time.Minute
	// eventCapacity is how many events wait for a slow reader before further ones are dropped and counted.
	eventCapacity = 1000
)

const (
	// DefaultInspectTimeout bounds one inspection of one pod. Since a slow inspection delays nobody else, it leaves an
	// overloaded host ample time; the kubelet, whose inspections wait for each other, has two minutes for each call.
	DefaultInspectTimeout = 30 * time.Second
	// inspectParallel is how many inspections start before others must wait, and slowAfter is how long one can make
	// others wait: from then on it does not count.
	inspectParallel = 16
	slowAfter       = time.Second
	// callsParallel is how many calls one inspection makes at a time.
	callsParallel = 8
)

// Runtime is what is asked of the container runtime. The lists contain only what is ours, and of one pod if uid is not
// empty. All methods only read.
type Runtime interface {
	ListSandboxes(ctx context.Context, uid types.UID) ([]*runtimeapi.PodSandbox, error)
	ListContainers(ctx context.Context, uid types.UID) ([]*runtimeapi.Container, error)
	SandboxStatus(ctx context.Context, id string) (*runtimeapi.PodSandboxStatus, error)
	ContainerStatus(ctx context.Context, id string) (*runtimeapi.ContainerStatus, error)
}

var _ Runtime = (*cri.Client)(nil)

// EventType says what happened.
type EventType int

// The events. The id is that of a container or of a sandbox, whose start and end are told in the same way. PodSync has
// none: something changed that is worth a look.
const (
	ContainerStarted EventType = iota
	ContainerDied
	ContainerRemoved
	PodSync
)

// String returns the kubelet's name of the type.
func (t EventType) String() string {
	return [...]string{"ContainerStarted", "ContainerDied", "ContainerRemoved", "PodSync"}[t]
}

// Event is one change of one pod.
type Event struct {
	UID         types.UID
	Type        EventType
	ContainerID string
}

// PodRecord is what a list tells of one pod.
type PodRecord struct {
	UID       types.UID
	Name      string
	Namespace string
	// Running says that a sandbox is ready, that a container runs, or that the runtime lost a container which may run.
	Running bool
}

// Options are what a PLEG needs. Runtime must be set.
type Options struct {
	Runtime Runtime
	// Watcher tells which pods change, so that an idle link is quiet. Without it, or while it fails, everything is listed
	// again and again. Labels select the same sandboxes and containers for it that Runtime lists.
	Watcher host.PodWatcher
	Labels  map[string]string
	// HostIPs returns the addresses of the host, which are those of pods on its network. Without it those have none.
	HostIPs func() []string
	// Clock is the real one if nil.
	Clock clock.WithTicker
	// Logger discards if nil.
	Logger *slog.Logger
	// RelistPeriod, RelistThreshold, InspectTimeout, SafetyPeriod and DigestPeriod are the defaults if zero.
	RelistPeriod    time.Duration
	RelistThreshold time.Duration
	InspectTimeout  time.Duration
	SafetyPeriod    time.Duration
	DigestPeriod    time.Duration
	// Registerer registers the metrics unless it is nil.
	Registerer prometheus.Registerer
}

// PLEG observes the runtime. Make it with New and let it work with Run.
type PLEG struct {
	o       Options
	cache   *cache
	events  chan Event
	metrics *metrics

	mu       sync.Mutex
	requests map[types.UID]time.Time // pods to relist, and what the list has to be newer than
	// inspections are those of them that have to be inspected even if the list shows no change.
	inspections map[types.UID]struct{}
	held        map[types.UID]struct{}
	pods        map[types.UID]PodRecord // by the newest list of each
	listedAt    time.Time               // when the last complete list was begun; zero before the first
	seenAt      time.Time               // when the newest list was, or the host last told that nothing changed
	wake        chan struct{}           // holds one token when there are requests, or a pod was released
	observed    chan struct{}           // closed after the first complete list
}

// New returns a PLEG that has not observed anything yet.
func New(o Options) *PLEG {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	for _, d := range []struct {
		value *time.Duration
		usual time.Duration
	}{
		{&o.RelistPeriod, DefaultRelistPeriod}, {&o.RelistThreshold, DefaultRelistThreshold},
		{&o.InspectTimeout, DefaultInspectTimeout},
		{&o.SafetyPeriod, DefaultSafetyPeriod}, {&o.DigestPeriod, DefaultDigestPeriod},
	} {
		if *d.value <= 0 {
			*d.value = d.usual
		}
	}
	return &PLEG{
		o:        o,
		cache:    newCache(),
		events:   make(chan Event, eventCapacity),
		metrics:  newMetrics(o.Registerer),
		requests: map[types.UID]time.Time{}, inspections: map[types.UID]struct{}{}, held: map[types.UID]struct{}{},
		pods:     map[types.UID]PodRecord{},
		wake:     make(chan struct{}, 1),
		observed: make(chan struct{}),
	}
}

// Run observes until ctx ends, and returns after all its goroutines have. It is called once.
func (p *PLEG) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	l := newLoop(p)
	defer l.tasks.Wait()
	defer cancel()
	l.run(ctx)
}

// Events delivers what changed. It has one reader. Events beyond its capacity are dropped and counted, so the reader has
// to look at each pod now and then without one. It is never closed.
func (p *PLEG) Events() <-chan Event { return p.events }

// RequestRelist asks for one pod to be observed anew, soon. It does not wait.
func (p *PLEG) RequestRelist(uid types.UID) { p.request(uid, p.o.Clock.Now()) }

// RequestInspection is RequestRelist after a change that no list tells of, such as one of resources: everything of the pod is
// inspected anew, and an event PodSync follows.
func (p *PLEG) RequestInspection(uid types.UID) {
	p.mu.Lock()
	p.inspections[uid] = struct{}{}
	p.mu.Unlock()
	p.RequestRelist(uid)
}

// request asks for an observation of the pod that is newer than t.
func (p *PLEG) request(uid types.UID, t time.Time) {
	p.mu.Lock()
	if before, ok := p.requests[uid]; !ok || before.Before(t) {
		p.requests[uid] = t
	}
	p.mu.Unlock()
	p.poke()
}

// poke wakes the loop.
func (p *PLEG) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// takeInspection says whether an inspection of the pod was asked for since the last call.
func (p *PLEG) takeInspection(uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, asked := p.inspections[uid]
	delete(p.inspections, uid)
	return asked
}

// takeRequests empties the requests.
func (p *PLEG) takeRequests() map[types.UID]time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.requests
	p.requests = map[types.UID]time.Time{}
	return taken
}

// Get returns the newest observation of the pod, which is never nil: an empty one with the UID if nothing of it is known.
// With an error, the last inspection failed, and the observation is the last good one.
func (p *PLEG) Get(uid types.UID) (*cri.PodStatus, error) { return p.cache.get(uid) }

// GetNewerThan is Get, but waits for an observation that was begun after t (also one that failed). If there is none it asks
// for one, so that nobody waits for a relist. It returns the error of ctx, and no observation, when ctx ends first.
func (p *PLEG) GetNewerThan(ctx context.Context, uid types.UID, t time.Time) (*cri.PodStatus, error) {
	status, changed, err := p.cache.newerThan(uid, t)
	if changed == nil {
		return status, err
	}
	if !t.IsZero() { // any observation will do, and the first relist brings one
		p.request(uid, t)
	}
	ask := p.o.Clock.NewTicker(p.o.RelistPeriod)
	defer ask.Stop()
	for changed != nil {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-ask.C():
			p.request(uid, t)
		case <-changed:
		}
		status, changed, err = p.cache.newerThan(uid, t)
	}
	return status, err
}

// GetOther blocks until the last good observation of the pod is another one than seen, which came from the cache too, or ctx
// ends. It asks the runtime for nothing.
func (p *PLEG) GetOther(ctx context.Context, uid types.UID, seen *cri.PodStatus) (*cri.PodStatus, error) {
	for {
		changed := p.cache.changed(uid)
		if status, err := p.cache.get(uid); err == nil && status != seen {
			return status, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-changed:
		}
	}
}

// Observation returns all pods by the newest list of each, and when the last complete list was begun; ok is false before the
// first.
func (p *PLEG) Observation() (pods []PodRecord, observedAt time.Time, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.pods)), p.listedAt, !p.listedAt.IsZero()
}

// MayRun says whether, by the newest list, something of the pod runs or cannot be ruled out to.
func (p *PLEG) MayRun(uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pods[uid].Running
}

// Observed is closed once Observation has something to return.
func (p *PLEG) Observed() <-chan struct{} { return p.observed }

// setComplete notes that a complete list begun at that time is worked in.
func (p *PLEG) setComplete(at time.Time) {
	p.mu.Lock()
	if p.listedAt.IsZero() {
		close(p.observed)
	}
	p.listedAt = at
	p.mu.Unlock()
	p.touch(at)
}

// touch notes that the runtime was seen at that time.
func (p *PLEG) touch(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at.After(p.seenAt) {
		p.seenAt = at
		p.metrics.seen(at)
	}
}

func (p *PLEG) setPod(s *snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pods[s.uid] = PodRecord{UID: s.uid, Name: s.name, Namespace: s.namespace, Running: s.mayRun()}
}

func (p *PLEG) dropPod(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pods, uid)
}

// errNeverListed is the kubelet's text.
var errNeverListed = errors.New("pleg has yet to be successful")

// Healthy returns nil while lists succeed or the host tells that nothing changed, and otherwise the kubelet's explanation for the node's condition.
func (p *PLEG) Healthy() error {
	p.mu.Lock()
	last, never := p.seenAt, p.listedAt.IsZero()
	p.mu.Unlock()
	if never {
		return errNeverListed
	}
	if age := p.o.Clock.Since(last); age > p.o.RelistThreshold {
		return fmt.Errorf("pleg was last seen active %v ago; threshold is %v", age, p.o.RelistThreshold)
	}
	return nil
}

// send delivers an event or drops it.
func (p *PLEG) send(e Event) {
	select {
	case p.events <- e:
	default:
		p.metrics.discarded.Inc()
		p.o.Logger.Error("Event channel is full, dropping an event", "uid", e.UID, "type", e.Type.String())
	}
}
