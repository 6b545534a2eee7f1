// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package resize

import (
	"cmp"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/cri"
)

// Fits says whether the node has room for the pod beside all others with what they have been allocated, which allocated
// tells of each of them, and of the pod as it is now. The reason is "" if it has; else it is v1.PodReasonDeferred, or
// v1.PodReasonInfeasible if it never will, and the message says what is lacking. It must not call the Manager.
type Fits func(pod *v1.Pod, allocated func(*v1.Pod) *v1.Pod) (reason, message string)

// messageUndecided is that of a change which was found at a time when not all pods of the node were known.
const messageUndecided = "It is not known yet what else runs on the node"

// Options configure New. All fields are required.
type Options struct {
	Clock    clock.PassiveClock
	Recorder record.EventRecorder
	// Runtime updates containers.
	Runtime Runtime
}

// Manager knows what each pod of the node was allocated and what of that the runtime was told.
type Manager struct {
	clock    clock.PassiveClock
	recorder record.EventRecorder
	runtime  Runtime

	mu   sync.Mutex
	pods map[types.UID]*state
}

// state is what is known of one pod.
type state struct {
	desired   *v1.Pod
	allocated allocation
	// actuated is what the runtime was told, by container id; whole is what the pod's control group was given of what the pod asks
	// for by itself, nil if that is not known.
	actuated map[string]amounts
	whole    *amounts
	// pending and progress are the conditions of these names, nil for none.
	pending, progress *v1.PodCondition
	// recovered says that an earlier process may have allocated, and done, more than the API shows. Until the change is
	// tried, nothing is made of what is allocated.
	recovered bool
}

// New returns a Manager that knows of no pod.
func New(o Options) *Manager {
	return &Manager{clock: o.Clock, recorder: o.Recorder, runtime: o.Runtime, pods: map[types.UID]*state{}}
}

// Add takes a pod that the node has accepted, as the API has it, and returns it with what an earlier process allocated. If
// it asks for something else, it waits (Retry).
func (m *Manager) Add(pod *v1.Pod) *v1.Pod { return m.Desire(pod, nil) }

// Desire takes a new version of a pod and returns it with what is allocated to it, which is what it asks for if that fits
// the node. If it does not, the pod waits (Retry). It also does without fits, which is for times when nobody knows.
func (m *Manager) Desire(pod *v1.Pod, fits Fits) *v1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.of(pod)
	s.desired = pod
	m.try(s, fits)
	return s.allocated.apply(pod)
}

// Allocated returns the pod with what is allocated to it; the pod itself if nothing is known of it.
func (m *Manager) Allocated(pod *v1.Pod) *v1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.allocatedTo(pod)
}

// allocatedTo is Allocated with the lock held.
func (m *Manager) allocatedTo(pod *v1.Pod) *v1.Pod {
	if s, ok := m.pods[pod.UID]; ok {
		return s.allocated.apply(pod)
	}
	return pod
}

// Retry tries the changes that wait, the most promising first, and returns the pods of which something changed.
func (m *Manager) Retry(fits Fits) []types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []types.UID
	for _, s := range m.waiting() {
		before := s.pending
		if m.try(s, fits) || !sameReason(before, s.pending) {
			out = append(out, s.desired.UID)
		}
	}
	return out
}

// Waiting says whether a change waits.
func (m *Manager) Waiting() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.pods {
		if deferred(s) {
			return true
		}
	}
	return false
}

// Conditions returns the pod's conditions about resizes.
func (m *Manager) Conditions(uid types.UID) []v1.PodCondition {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.pods[uid]
	if s == nil {
		return nil
	}
	var out []v1.PodCondition
	for _, c := range []*v1.PodCondition{s.pending, s.progress} {
		if c != nil {
			out = append(out, *c)
		}
	}
	return out
}

// Forget drops a pod.
func (m *Manager) Forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pods, uid)
}

// of returns the state of a pod, recovered from the API when it is seen for the first time.
func (m *Manager) of(pod *v1.Pod) *state {
	s := m.pods[pod.UID]
	if s == nil {
		s = &state{
			desired: pod, allocated: recovered(pod), actuated: map[string]amounts{},
			pending: conditionOf(pod, v1.PodResizePending), progress: conditionOf(pod, v1.PodResizeInProgress),
		}
		s.recovered = s.allocated.differs(pod)
		m.pods[pod.UID] = s
	}
	return s
}

// try allocates what the pod asks for if it fits, and says whether the allocation changed. A pod that is being deleted gets
// nothing new.
func (m *Manager) try(s *state, fits Fits) bool {
	pod := s.desired
	switch {
	case !s.allocated.differs(pod):
		s.pending, s.recovered = nil, false
		return false
	case pod.DeletionTimestamp != nil:
		return false
	case fits == nil:
		m.undecided(s)
		return false
	}
	s.recovered = false
	if reason, lacking := fits(pod, m.allocatedTo); reason != "" {
		m.wait(s, reason, lacking)
		return false
	}
	s.wholeInEffect(s.allocated.apply(pod))
	s.allocated = allocationOf(pod)
	s.pending = nil
	s.progress = newCondition(v1.PodResizeInProgress, nil, "", "", pod.Generation, m.clock.Now())
	m.recorder.Event(pod, v1.EventTypeNormal, eventStarted, message("Pod resize started", pod, pod.Generation, ""))
	return true
}

// undecided notes that the pod's wish has to be tried. The condition is there before the API can show that this generation
// of the pod was seen: without it, the next process would take the wish for granted.
func (m *Manager) undecided(s *state) {
	if s.pending == nil || s.pending.ObservedGeneration != s.desired.Generation {
		s.pending = newCondition(v1.PodResizePending, s.pending, v1.PodReasonDeferred, messageUndecided,
			s.desired.Status.ObservedGeneration, m.clock.Now())
	}
	s.recovered = s.recovered && deferred(s)
}

// wait notes that the pod's wish does not fit.
func (m *Manager) wait(s *state, reason, lacking string) {
	pod, old := s.desired, s.pending
	s.pending = newCondition(v1.PodResizePending, old, reason, lacking, pod.Generation, m.clock.Now())
	if old == nil || old.Reason != s.pending.Reason || old.ObservedGeneration != s.pending.ObservedGeneration {
		event := eventDeferred
		if reason == v1.PodReasonInfeasible {
			event = eventInfeasible
		}
		m.recorder.Event(pod, v1.EventTypeWarning, event, message("Pod resize "+reason, pod, pod.Generation, lacking))
	}
}

func deferred(s *state) bool {
	return s.pending != nil && s.pending.Reason == v1.PodReasonDeferred && s.desired.DeletionTimestamp == nil
}

func sameReason(a, b *v1.PodCondition) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Reason == b.Reason && a.Message == b.Message
}

// waiting returns the pods whose change waits, in the kubelet's order: those that do not grow, then by priority, then
// guaranteed before burstable, then those that wait longest.
func (m *Manager) waiting() []*state {
	var out []*state
	for _, s := range m.pods {
		if deferred(s) {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *state) int {
		return cmp.Or(
			cmp.Compare(number(increases(a.desired, a.allocated.apply(a.desired))), number(increases(b.desired, b.allocated.apply(b.desired)))),
			cmp.Compare(priority(b.desired), priority(a.desired)),
			cmp.Compare(number(!guaranteed(a.desired)), number(!guaranteed(b.desired))),
			a.pending.LastTransitionTime.Compare(b.pending.LastTransitionTime.Time),
			cmp.Compare(a.desired.UID, b.desired.UID),
		)
	})
	return out
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

func priority(pod *v1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

func guaranteed(pod *v1.Pod) bool { return pod.Status.QOSClass == v1.PodQOSGuaranteed }

// Created notes that a container was made with what the pod has been allocated: pod is the one it was made from.
func (m *Manager) Created(pod *v1.Pod, c *v1.Container, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.pods[pod.UID]; s != nil {
		s.actuated[id] = amountsOf(effective(pod, c))
	}
}

// Observe compares what runs with what is allocated and tells when a change is done. The pod is the allocated one.
func (m *Manager) Observe(pod *v1.Pod, status *cri.PodStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.pods[pod.UID]
	if s == nil {
		return
	}
	s.retain(status)
	if s.recovered {
		return
	}
	if s.unfinished(pod, status) {
		if s.progress == nil {
			s.progress = newCondition(v1.PodResizeInProgress, nil, "", "", pod.Generation, m.clock.Now())
		}
		return
	}
	if s.progress != nil {
		m.recorder.Event(pod, v1.EventTypeNormal, eventCompleted,
			message("Pod resize completed", pod, s.progress.ObservedGeneration, ""))
		s.progress = nil
	}
}

// unfinished says whether a container runs with other resources than are allocated, or the pod as a whole has others.
func (s *state) unfinished(pod *v1.Pod, status *cri.PodStatus) bool {
	found := s.wholeInEffect(pod) != wholeOf(pod)
	running(pod, status, func(c *v1.Container, record *cri.ContainerStatus) {
		if s.actual(pod, c, record) != amountsOf(effective(pod, c)) {
			found = true
		}
	})
	return found
}

// actual is what the runtime was told of a container that runs: as far as this process knows, else as the API says, else
// as the runtime says. What none of them says is what is allocated, for every container is made with that.
func (s *state) actual(pod *v1.Pod, c *v1.Container, record *cri.ContainerStatus) amounts {
	id := record.ID
	if a, ok := s.actuated[id]; ok {
		return a
	}
	a := amountsOf(record.Resources.In(effective(pod, c)))
	for _, statuses := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if st := &statuses[i]; st.Name == c.Name && st.ContainerID == cri.APIContainerID(id) && st.Resources != nil {
				a = amountsOf(*st.Resources)
			}
		}
	}
	s.actuated[id] = a
	return a
}

// retain drops what is known of containers that are gone.
func (s *state) retain(status *cri.PodStatus) {
	for id := range s.actuated {
		if !slices.ContainsFunc(status.Containers, func(c cri.ContainerStatus) bool { return c.ID == id }) {
			delete(s.actuated, id)
		}
	}
}

// running visits the containers that can be resized and run, with their newest record.
func running(pod *v1.Pod, status *cri.PodStatus, visit func(*v1.Container, *cri.ContainerStatus)) {
	containers(pod, func(c *v1.Container) {
		if record := status.Newest(c.Name); record != nil && record.State == cri.ContainerRunning {
			visit(c, record)
		}
	})
}
