// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package evict

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/host"
)

const (
	// Period is how often the kubelet looks at what pods take.
	Period = 10 * time.Second
	// Grace is what the kubelet gives a pod that took too much.
	Grace = time.Second
	// parallel is how many pods are measured at once.
	parallel = 4
)

// Options are what a Manager needs. All but Logger and Registerer are required.
type Options struct {
	Usage host.UsageReader
	// Pods returns the pods that run, in the version that counts. They are shared.
	Pods func() []*v1.Pod
	// Evict begins to end a pod, without blocking, and says whether it did: the pod may be on its way out already.
	Evict func(pod *v1.Pod, why Verdict) bool
	Clock clock.WithTicker
	// Logger is told of pods that cannot be measured.
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Manager looks for pods that take too much.
type Manager struct {
	opts    Options
	log     *slog.Logger
	metrics *metrics
	slots   chan struct{}
	// old is for telling once of a host that cannot measure.
	old sync.Once

	mu sync.Mutex
	// busy are the pods that are being measured.
	busy map[types.UID]struct{}
}

// New returns a Manager, which does nothing before Run.
func New(o Options) *Manager {
	m := &Manager{opts: o, log: o.Logger, metrics: newMetrics(o.Registerer), slots: make(chan struct{}, parallel), busy: map[types.UID]struct{}{}}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	return m
}

// Run looks at the pods each Period until ctx ends.
func (m *Manager) Run(ctx context.Context) {
	ticker := m.opts.Clock.NewTicker(Period)
	defer ticker.Stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			m.pass(ctx, &wg)
		}
	}
}

// pass begins to measure every pod with limits that is not being measured.
func (m *Manager) pass(ctx context.Context, wg *sync.WaitGroup) {
	for _, pod := range m.opts.Pods() {
		limits := LimitsOf(pod)
		if limits == (Limits{}) || !m.begin(pod.UID) {
			continue
		}
		wg.Go(func() {
			defer m.end(pod.UID)
			select {
			case m.slots <- struct{}{}:
				defer func() { <-m.slots }()
				m.look(ctx, pod, limits)
			case <-ctx.Done():
			}
		})
	}
}

func (m *Manager) begin(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, busy := m.busy[uid]
	m.busy[uid] = struct{}{}
	return !busy
}

func (m *Manager) end(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.busy, uid)
}

// look measures a pod and judges it.
func (m *Manager) look(ctx context.Context, pod *v1.Pod, limits Limits) {
	begin := m.opts.Clock.Now()
	usage, err := m.opts.Usage.PodUsage(ctx, host.Pod{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}, limits.Storage)
	m.metrics.took.Observe(m.opts.Clock.Since(begin).Seconds())
	if errdefs.IsNotImplemented(err) {
		m.old.Do(func() {
			m.log.Warn("the host cannot tell what pods take of its disk; nothing limits them; update it", "error", err)
		})
		return
	}
	if err != nil {
		if ctx.Err() == nil && !errdefs.IsUnavailable(err) {
			m.log.Warn("cannot tell what a pod takes of the host's disk; it is not limited", "pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID, "error", err)
		}
		return
	}
	if why, over := Judge(pod, usage); over && m.opts.Evict(pod, why) {
		m.metrics.evictions.WithLabelValues(why.Signal).Inc()
	}
}
