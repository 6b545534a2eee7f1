// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/lifecycle"
)

const (
	// pollPeriod is how often a kubelet asks its runtime for its status.
	pollPeriod = 5 * time.Second
	// retryPeriod is the pause between polls while one of them fails, so that a machine that is back is seen soon.
	retryPeriod = time.Second
	// pollTimeout is the deadline of one poll.
	pollTimeout = 5 * time.Second
	// linkPatience is how long requests may go unanswered before the link counts as down. A host process that is restarted
	// for an upgrade stays below it. The first such request is sent at most pollPeriod after a silent cut, and the one after it
	// fails with the connection, 14 s after the cut: more than 8 s would tell of it later.
	linkPatience = 8 * time.Second
	// runtimePatience is how long a kubelet puts up with a silent runtime.
	runtimePatience = 30 * time.Second
	// imagesPeriod is how often the list of images is read.
	imagesPeriod = time.Minute
)

// Runtime is what the monitor asks of the container runtime. Every method reads only.
type Runtime interface {
	Version(ctx context.Context) (*runtimeapi.VersionResponse, error)
	Status(ctx context.Context) (*runtimeapi.StatusResponse, error)
	ListImages(ctx context.Context) ([]*runtimeapi.Image, error)
}

// Options are what a Monitor is made of.
type Options struct {
	// Target is the host's address as the user gave it, for messages.
	Target string
	// Link tells since when and why there is no connection to the host; the error is nil while there is one. It knows
	// better than a request that failed for it. It may be nil.
	Link    func() (since time.Time, err error)
	Facts   host.FactsReader
	Runtime Runtime
	Clock   clock.WithTicker
	// Logger may be nil.
	Logger *slog.Logger
	// Registerer receives the metrics; nil: they are not registered.
	Registerer prometheus.Registerer
}

// Monitor polls one machine.
type Monitor struct {
	opts    Options
	metrics *metrics
	changes chan struct{}

	// The fields of the polling, used by Run only.
	link, runtime health
	imagesAt      time.Time

	mu    sync.RWMutex
	state State
}

var _ lifecycle.Machine = (*Monitor)(nil)

// New makes a monitor. It does nothing before Run.
func New(o Options) *Monitor {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Monitor{
		opts:    o,
		metrics: newMetrics(o.Registerer),
		changes: make(chan struct{}, 1),
		link:    health{patience: linkPatience},
		runtime: health{patience: runtimePatience},
		state:   State{Target: o.Target},
	}
}

// State returns what is known now.
func (m *Monitor) State() State {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.state
}

// Changes has a token after each poll that the one reader has not seen.
func (m *Monitor) Changes() <-chan struct{} { return m.changes }

// Facts are the newest known facts, nil before the first answer of the host.
func (m *Monitor) Facts() *host.Facts {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.state.Facts
}

// RuntimeReady is nil when the runtime last said that it is ready, and the link to it is not down.
func (m *Monitor) RuntimeReady() error {
	s := m.State()
	if err := s.LinkError(); err != nil {
		return err
	}
	return s.RuntimeError()
}

// LinkDown says that the link is known to be down, since when and why: it was for longer than is put up with, or there is no connection.
// It is nil while neither is known. The text is that of the node's condition.
func (m *Monitor) LinkDown() error {
	s := m.State()
	if s.Link == nil && m.opts.Link != nil {
		if since, err := m.opts.Link(); err != nil {
			s.Link = &Outage{Since: since, Err: err}
		}
	}
	return s.LinkError()
}

// NetworkReady is nil when the runtime last said that pod networks can be made.
func (m *Monitor) NetworkReady() error {
	s := m.State()
	return s.NetworkError()
}

// HostIPs are the addresses for status.hostIPs, at most one of each family.
func (m *Monitor) HostIPs() []string {
	s := m.State()
	return s.HostIPs()
}

// ClockOffset is how far the host's wall clock is ahead of ours, as last measured.
func (m *Monitor) ClockOffset() time.Duration { return m.State().ClockOffset }

// HostTime is the present time by the host's wall clock.
func (m *Monitor) HostTime() time.Time {
	s := m.State()
	return m.opts.Clock.Now().Add(s.ClockOffset)
}

// Run polls until ctx ends.
func (m *Monitor) Run(ctx context.Context) {
	for {
		m.poll(ctx)
		pause := pollPeriod
		if m.link.failing() || m.runtime.failing() {
			pause = retryPeriod
		}
		timer := m.opts.Clock.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
	}
}
