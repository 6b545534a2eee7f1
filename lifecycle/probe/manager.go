// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// Runtime runs the commands of exec probes. Its errors are of the classes of github.com/containerd/errdefs.
type Runtime interface {
	// ExecSync runs a command and kills it after the timeout, which is cri.ErrCommandTimedOut then.
	ExecSync(ctx context.Context, id string, cmd []string, timeout time.Duration) (*runtimeapi.ExecSyncResponse, error)
	// ContainerStatus is asked, after a command whose end is not told, whether the runtime answers at all.
	ContainerStatus(ctx context.Context, id string) (*runtimeapi.ContainerStatus, error)
}

// Cache has the newest observation of a pod. It does not block.
type Cache interface {
	Get(uid types.UID) (*cri.PodStatus, error)
}

var (
	_ Runtime               = (*cri.Client)(nil)
	_ podrules.ProbeResults = (*Manager)(nil)
)

// Options configure New. All fields but Starting, HostIP, Logger and Registerer are required.
type Options struct {
	Runtime Runtime
	Prober  host.Prober
	Cache   Cache
	// Starting says of a running container that it is not to be probed yet, because its postStart hook has not ended.
	Starting func(pod *v1.Pod, cs *cri.ContainerStatus) bool
	// HostIP is the address of pods in the host's network, "" if it is not known.
	HostIP     func() string
	Clock      clock.Clock
	Recorder   record.EventRecorder
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Manager probes the containers of pods.
type Manager struct {
	opts    Options
	log     *slog.Logger
	metrics *metrics
	results results
	updates chan Update
	started time.Time

	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	pods    map[types.UID]*podProbes
	closed  bool
	workers sync.WaitGroup
}

// podProbes are the workers of one pod.
type podProbes struct {
	workers map[probeKey]*worker
	// terminating says that startup and liveness of regular containers are not asked any more.
	terminating bool
}

type probeKey struct {
	container string
	kind      podrules.ProbeKind
}

// New returns a Manager.
func New(o Options) *Manager {
	m := &Manager{
		opts: o, log: o.Logger, metrics: newMetrics(o.Registerer), updates: make(chan Update), started: o.Clock.Now(),
		results: results{by: map[resultKey]podrules.ProbeResult{}}, pods: map[types.UID]*podProbes{},
	}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	return m
}

// Run returns when ctx has ended and every probe with it. A Manager runs once.
func (m *Manager) Run(ctx context.Context) {
	<-ctx.Done()
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.cancel()
	m.workers.Wait()
}

// Updates tells of every result that changed, after ProbeResult tells it too.
func (m *Manager) Updates() <-chan Update { return m.updates }

// ProbeResult implements podrules.ProbeResults.
func (m *Manager) ProbeResult(kind podrules.ProbeKind, containerID string) podrules.ProbeResult {
	return m.results.get(kind, containerID)
}

// Sync sees to it that every probe of the pod is asked, and that what may have changed is noticed at once. A probe keeps the
// parameters it had when it was first seen.
func (m *Manager) Sync(pod *v1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	probes := m.pods[pod.UID]
	if probes == nil {
		probes = &podProbes{workers: map[probeKey]*worker{}}
		m.pods[pod.UID] = probes
	}
	if probes.terminating {
		return
	}
	for kind, c := range podrules.Containers(pod) {
		if kind != podrules.RegularContainer && kind != podrules.Sidecar {
			continue
		}
		for _, p := range []struct {
			kind podrules.ProbeKind
			spec *v1.Probe
		}{
			{podrules.StartupProbe, c.StartupProbe}, {podrules.ReadinessProbe, c.ReadinessProbe}, {podrules.LivenessProbe, c.LivenessProbe},
		} {
			if p.spec != nil {
				m.ensure(probes, pod, c, kind == podrules.Sidecar, p.kind, p.spec)
			}
		}
	}
}

// ensure starts the worker of a probe or tells it of the pod's newest version. Call it with mu held.
func (m *Manager) ensure(
	probes *podProbes, pod *v1.Pod, c *v1.Container, sidecar bool, kind podrules.ProbeKind, spec *v1.Probe,
) {
	key := probeKey{c.Name, kind}
	if w := probes.workers[key]; w != nil {
		w.pod.Store(pod)
		if kind != podrules.ReadinessProbe || m.results.get(kind, w.containerID()) != podrules.ProbeSucceeded {
			w.look()
		}
		return
	}
	w := newWorker(m, pod, c, kind, spec)
	w.sidecar = sidecar
	probes.workers[key] = w
	first := m.spread(w)
	m.workers.Go(func() { w.work(first) })
}

// spread is how long a new worker waits before its first try. After a restart of this process the tries of all containers
// that ran before are spread over one period; others are tried at once.
func (m *Manager) spread(w *worker) time.Duration {
	rs, err := m.opts.Cache.Get(w.pod.Load().UID)
	if err != nil || rs == nil || m.opts.Clock.Since(m.started) >= w.period {
		return 0
	}
	if cs := rs.Newest(w.key.container); cs == nil || cs.State != cri.ContainerRunning {
		return 0
	}
	return rand.N(w.period) //nolint:gosec // it spreads load and protects nothing.
}

// StopStartupAndLiveness ends the probes that could have a regular container of a terminating pod killed. Readiness goes on,
// and so does everything about sidecars.
func (m *Manager) StopStartupAndLiveness(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	probes := m.pods[uid]
	if probes == nil || probes.terminating {
		return
	}
	probes.terminating = true
	for _, w := range probes.workers {
		if w.endsWithPod() {
			w.stop(podrules.ProbeSucceeded)
		}
	}
}

// Remove ends all probes of the pod and forgets their results.
func (m *Manager) Remove(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	probes := m.pods[uid]
	if probes == nil {
		return
	}
	delete(m.pods, uid)
	for _, w := range probes.workers {
		w.stop(podrules.ProbeUnknown)
	}
}

// lookAgain wakes the probes of a container that has started.
func (m *Manager) lookAgain(uid types.UID, container string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	probes := m.pods[uid]
	if probes == nil {
		return
	}
	for key, w := range probes.workers {
		if key.container == container && key.kind != podrules.StartupProbe {
			w.look()
		}
	}
}
