// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package pleg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/cri"
)

// What the kubelet's generic PLEG uses.
const (
	// DefaultRelistPeriod is the time from the end of one relist to the start of the next.
	DefaultRelistPeriod = time.Second
	// DefaultRelistThreshold is how old the last successful list may be before Healthy complains.
	DefaultRelistThreshold = 3 * time.Minute
	// eventCapacity is how many events wait for a slow reader before further ones are dropped and counted.
	eventCapacity = 1000
	// requestCapacity is how many pods can wait for a relist on demand.
	requestCapacity = 200
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
	// Clock is the real one if nil.
	Clock clock.WithTicker
	// Logger discards if nil.
	Logger *slog.Logger
	// RelistPeriod, RelistThreshold and InspectTimeout are the defaults above if zero.
	RelistPeriod    time.Duration
	RelistThreshold time.Duration
	InspectTimeout  time.Duration
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
	requests map[types.UID]time.Time // pods to relist, and when that was asked for
	pods     []PodRecord             // of the last complete list
	listedAt time.Time               // when that was begun; zero before the first
	wake     chan struct{}           // holds one token when there are requests
	observed chan struct{}           // closed after the first complete list
}

// New returns a PLEG that has not observed anything yet.
func New(o Options) *PLEG {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.RelistPeriod <= 0 {
		o.RelistPeriod = DefaultRelistPeriod
	}
	if o.RelistThreshold <= 0 {
		o.RelistThreshold = DefaultRelistThreshold
	}
	if o.InspectTimeout <= 0 {
		o.InspectTimeout = DefaultInspectTimeout
	}
	return &PLEG{
		o:        o,
		cache:    newCache(),
		events:   make(chan Event, eventCapacity),
		metrics:  newMetrics(o.Registerer),
		requests: map[types.UID]time.Time{},
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

// RequestRelist asks for one pod to be observed anew, soon. It does not wait. It is a hint: the request may be dropped,
// and then the next relist shows what happened.
func (p *PLEG) RequestRelist(uid types.UID) {
	p.mu.Lock()
	if _, ok := p.requests[uid]; !ok && len(p.requests) >= requestCapacity {
		p.mu.Unlock()
		p.o.Logger.Warn("Too many pods wait to be relisted, dropping a request", "uid", uid)
		return
	}
	p.requests[uid] = p.o.Clock.Now()
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
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

// GetNewerThan is Get, but waits for an observation that was begun after t (also one that failed). It returns the error
// of ctx, and no observation, when ctx ends first.
func (p *PLEG) GetNewerThan(ctx context.Context, uid types.UID, t time.Time) (*cri.PodStatus, error) {
	return p.cache.getNewerThan(ctx, uid, t)
}

// Observation returns all pods of the last complete list and when that was begun; ok is false before the first. The
// slice is shared.
func (p *PLEG) Observation() (pods []PodRecord, observedAt time.Time, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pods, p.listedAt, !p.listedAt.IsZero()
}

// Observed is closed once Observation has something to return.
func (p *PLEG) Observed() <-chan struct{} { return p.observed }

func (p *PLEG) setObservation(pods []PodRecord, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listedAt.IsZero() {
		close(p.observed)
	}
	p.pods, p.listedAt = pods, at
}

// errNeverListed is the kubelet's text.
var errNeverListed = errors.New("pleg has yet to be successful")

// Healthy returns nil while lists succeed, and otherwise the kubelet's explanation for the node's condition.
func (p *PLEG) Healthy() error {
	p.mu.Lock()
	last := p.listedAt
	p.mu.Unlock()
	if last.IsZero() {
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
