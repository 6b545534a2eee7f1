// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/lifecycle/podref"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// The kubelet's defaults of what the API server fills in, for static pods that never met one.
const (
	defaultTimeout          = time.Second
	defaultPeriod           = 10 * time.Second
	defaultSuccessThreshold = 1
	defaultFailureThreshold = 3
)

// worker asks one probe. Its goroutine owns the fields without a comment on who else may use them.
type worker struct {
	m         *Manager
	key       probeKey
	container *v1.Container // as it was when the probe was first seen
	sidecar   bool
	spec      *v1.Probe
	period    time.Duration
	timeout   time.Duration

	pod    atomic.Pointer[v1.Pod] // the newest version
	wake   chan struct{}
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex // guards id and stopped, so that nothing is published for a worker that was stopped
	id      string     // the container that is asked
	stopped bool

	// since is when the container was first seen running and past its hook. asked says that it was asked since then.
	since time.Time
	asked bool
	// hold says that nothing is asked until there is another container.
	hold bool
	// last and inRow are the outcome of the last try that counted and how many in a row had it.
	last  podrules.ProbeResult
	inRow int32
	// next is when the container is looked at again even if nobody tells the worker to.
	next time.Time
}

func newWorker(m *Manager, pod *v1.Pod, c *v1.Container, kind podrules.ProbeKind, spec *v1.Probe) *worker {
	w := &worker{
		m: m, key: probeKey{c.Name, kind}, container: c, spec: spec, wake: make(chan struct{}, 1),
		period: seconds(spec.PeriodSeconds, defaultPeriod), timeout: seconds(spec.TimeoutSeconds, defaultTimeout),
	}
	w.pod.Store(pod)
	w.ctx, w.cancel = context.WithCancel(m.ctx)
	return w
}

func seconds(n int32, otherwise time.Duration) time.Duration {
	if n <= 0 {
		return otherwise
	}
	return time.Duration(n) * time.Second
}

// look makes the worker look at its container at once. It does not wait.
func (w *worker) look() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// endsWithPod says whether the probe is not asked any more when its pod terminates.
func (w *worker) endsWithPod() bool { return w.key.kind != podrules.ReadinessProbe && !w.sidecar }

func (w *worker) containerID() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.id
}

// stop ends the worker, leaving a last result. It does not wait.
func (w *worker) stop(result podrules.ProbeResult) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.cancel()
	if result == podrules.ProbeUnknown || w.id == "" {
		w.m.results.drop(w.key.kind, w.id)
		return
	}
	w.m.results.set(w.key.kind, w.id, result)
}

// work looks at the container after the first wait and then every period, counted from look to look as a ticker does, and
// whenever it is told to.
func (w *worker) work(wait time.Duration) {
	defer w.m.metrics.forget(w)
	clk := w.m.opts.Clock
	w.next = clk.Now().Add(wait)
	for {
		timer, woken := clk.NewTimer(max(w.next.Sub(clk.Now()), 0)), false
		select {
		case <-w.ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		case <-w.wake:
			timer.Stop()
			woken = true
		}
		begin := clk.Now()
		w.next = begin.Add(w.tick(begin, woken))
	}
}

// tick asks the container if it is to be asked now, and returns how long after begin it is to be looked at next. A worker
// that was woken asks before its time only what has not been asked yet, and readiness, which is what somebody may wait
// for: else whatever happens to the pod would bring the failures of a container closer together.
func (w *worker) tick(begin time.Time, woken bool) time.Duration {
	pod := w.pod.Load()
	rs, err := w.m.opts.Cache.Get(pod.UID)
	if err != nil || rs == nil {
		return w.period
	}
	cs := rs.Newest(w.key.container)
	if cs == nil {
		return w.period
	}
	w.meet(pod, cs)
	switch {
	case cs.State == cri.ContainerExited && w.key.kind == podrules.ReadinessProbe:
		w.publish(podrules.ProbeFailed)
		return w.period
	case cs.State != cri.ContainerRunning || w.hold || w.starting(pod, cs) || !w.due(cs.ID):
		return w.period
	case pod.DeletionTimestamp != nil && w.endsWithPod():
		w.publish(podrules.ProbeSucceeded)
		w.hold = true
		return w.period
	case woken && w.asked && w.key.kind != podrules.ReadinessProbe:
		return w.next.Sub(begin)
	}
	if w.since.IsZero() {
		w.since = begin
	}
	delay := time.Duration(w.spec.InitialDelaySeconds) * time.Second
	if left := delay - begin.Sub(w.since); left > 0 {
		return min(left, w.period)
	}
	w.asked = true
	w.ask(pod, rs, cs.ID)
	return w.period
}

// meet begins anew with a container that has not been asked before. One that the API shows as started, since an earlier
// process saw it start, has.
func (w *worker) meet(pod *v1.Pod, cs *cri.ContainerStatus) {
	if w.containerID() == cs.ID {
		return
	}
	w.mu.Lock()
	w.m.results.drop(w.key.kind, w.id)
	w.id = cs.ID
	w.mu.Unlock()
	w.since, w.asked, w.hold, w.last, w.inRow = time.Time{}, false, false, podrules.ProbeUnknown, 0
	if w.key.kind == podrules.StartupProbe && shownStarted(pod, cs) {
		w.publish(podrules.ProbeSucceeded)
		w.hold = true
	}
}

// shownStarted says whether the API shows the very container as started.
func shownStarted(pod *v1.Pod, cs *cri.ContainerStatus) bool {
	for _, statuses := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			st := &statuses[i]
			if st.Name == cs.Name && st.ContainerID == cri.APIContainerID(cs.ID) {
				return st.State.Running != nil && st.Started != nil && *st.Started
			}
		}
	}
	return false
}

func (w *worker) starting(pod *v1.Pod, cs *cri.ContainerStatus) bool {
	return w.m.opts.Starting != nil && w.m.opts.Starting(pod, cs)
}

// due says whether it is this probe's turn: until the startup probe has succeeded there is no other.
func (w *worker) due(id string) bool {
	return w.key.kind == podrules.StartupProbe || w.container.StartupProbe == nil ||
		w.m.results.get(podrules.StartupProbe, id) == podrules.ProbeSucceeded
}

// ask makes a try and counts its outcome.
func (w *worker) ask(pod *v1.Pod, rs *cri.PodStatus, id string) {
	begin := w.m.opts.Clock.Now()
	result, err := w.try(pod, rs, id)
	took := w.m.opts.Clock.Since(begin)
	switch {
	case w.ctx.Err() != nil:
		return
	case err != nil && cri.OutcomeUnknown(err):
		w.m.log.Debug("a try of a probe had no answer", "pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID,
			"container", w.key.container, "probe", w.key.kind, "error", err)
		return
	case err != nil:
		w.event("Unhealthy", string(w.key.kind)+" probe errored and resulted in unknown state: "+err.Error())
		w.m.metrics.count(w, countUnknown, took)
		return
	}
	outcome, label := podrules.ProbeSucceeded, countSuccessful
	switch result.Outcome {
	case host.ProbeWarning:
		w.event("ProbeWarning", string(w.key.kind)+" probe warning: "+result.Output)
	case host.ProbeFailure:
		outcome, label = podrules.ProbeFailed, countFailed
		w.event("Unhealthy", string(w.key.kind)+" probe failed: "+result.Output)
	}
	w.m.metrics.count(w, label, took)
	w.count(outcome)
}

// count adds an outcome and publishes it once there were enough of its kind in a row.
func (w *worker) count(outcome podrules.ProbeResult) {
	if w.last == outcome {
		w.inRow++
	} else {
		w.last, w.inRow = outcome, 1
	}
	if w.inRow < w.threshold(outcome) {
		return
	}
	// The container is not asked again while it is being killed, or once it has started.
	if w.key.kind == podrules.StartupProbe || (w.key.kind == podrules.LivenessProbe && outcome == podrules.ProbeFailed) {
		w.hold = true
		w.last, w.inRow = podrules.ProbeUnknown, 0
	}
	w.publish(outcome)
}

func (w *worker) threshold(outcome podrules.ProbeResult) int32 {
	n, otherwise := w.spec.SuccessThreshold, int32(defaultSuccessThreshold)
	if outcome == podrules.ProbeFailed {
		n, otherwise = w.spec.FailureThreshold, defaultFailureThreshold
	}
	if n <= 0 {
		return otherwise
	}
	return n
}

// publish makes a result known and tells of it if it is news.
func (w *worker) publish(result podrules.ProbeResult) {
	w.mu.Lock()
	news := !w.stopped && w.m.results.set(w.key.kind, w.id, result)
	id := w.id
	w.mu.Unlock()
	if !news {
		return
	}
	uid := w.pod.Load().UID
	if w.key.kind == podrules.StartupProbe && result == podrules.ProbeSucceeded {
		w.m.lookAgain(uid, w.key.container)
	}
	select {
	case w.m.updates <- Update{UID: uid, Container: w.key.container, ContainerID: id, Kind: w.key.kind, Result: result}:
	case <-w.ctx.Done():
	}
}

func (w *worker) event(reason, message string) {
	w.m.opts.Recorder.Event(podref.Container(w.pod.Load(), w.key.container), v1.EventTypeWarning, reason, message)
}
