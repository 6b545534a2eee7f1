// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// FuzzHistory plays a history of a pod that the input chooses, among it what should not happen: records that are
// removed while the container runs or before anyone looked, states that the runtime loses, restarts of our process. Of
// every status that comes out it checks what must hold for all of them.
func FuzzHistory(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		steps := make([]byte, 3+r.IntN(60))
		for i := range steps {
			steps[i] = byte(r.UintN(256))
		}
		f.Add(steps)
	}
	f.Fuzz(func(t *testing.T, steps []byte) {
		if len(steps) < 3 || len(steps) > 300 {
			t.Skip("no history, or one too long to be worth its time")
		}
		h := newHistory(steps[0])
		for i, step := range steps[1:] {
			h.play(step)
			h.look(t, fmt.Sprintf("step %d (%s)", i, h.last))
		}
		h.end(t)
	})
}

// history is a pod, its runtime and what was said of it so far.
type history struct {
	pod    *v1.Pod
	now    time.Time
	facts  cri.PodStatus
	cached *v1.PodStatus
	last   string
	ids    int
	// codes are the exit codes that processes really ended with, told those of them that the last status has. A status has
	// room for two ends, so what was told before that may be forgotten.
	codes, told map[string]int32
	counts      map[string]int32
	phase       v1.PodPhase
	waiting     map[string]bool
	probes      map[string]podrules.ProbeResult
	// restarting says that all containers were removed to start anew and that this was not shown yet.
	restarting bool
}

// ProbeResult makes a history the results of its probes.
func (h *history) ProbeResult(_ podrules.ProbeKind, id string) podrules.ProbeResult {
	return h.probes[id]
}

func newHistory(choice byte) *history {
	policies := []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever}
	h := &history{
		now:     time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		codes:   map[string]int32{},
		told:    map[string]int32{},
		counts:  map[string]int32{},
		waiting: map[string]bool{},
		probes:  map[string]podrules.ProbeResult{},
		pod: &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{UID: "u1", Name: "p", Namespace: "n"},
			Spec: v1.PodSpec{
				RestartPolicy: policies[int(choice)%len(policies)],
				Containers:    []v1.Container{{Name: "b"}, {Name: "a"}},
			},
		},
	}
	if choice&0x20 != 0 {
		h.pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e"}}}
	}
	if choice&0x40 != 0 { // what ends with 3 restarts all
		for i := range h.pod.Spec.Containers {
			c := &h.pod.Spec.Containers[i]
			c.RestartPolicy = new(v1.ContainerRestartPolicyNever)
			c.RestartPolicyRules = []v1.ContainerRestartRule{{
				Action: v1.ContainerRestartRuleActionRestartAllContainers,
				ExitCodes: &v1.ContainerRestartRuleOnExitCodes{
					Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{3},
				},
			}}
		}
	}
	if choice&0x80 != 0 {
		h.pod.Spec.Containers[0].StartupProbe = &v1.Probe{}
		h.pod.Spec.Containers[1].ReadinessProbe = &v1.Probe{}
	}
	if choice&0x10 != 0 {
		h.pod.Spec.InitContainers = []v1.Container{{Name: "i"}, {Name: "s", RestartPolicy: new(v1.ContainerRestartPolicyAlways)}}
	}
	h.facts.Sandboxes = []cri.SandboxStatus{{ID: "sb", Ready: true}}
	return h
}

func (h *history) play(step byte) {
	h.now = h.now.Add(time.Duration(1+step%3) * time.Second)
	var names []string
	for _, c := range podrules.Containers(h.pod) {
		names = append(names, c.Name)
	}
	name := names[int(step>>4)%len(names)]
	newest := h.facts.Newest(name)
	h.last = ""
	switch op := step & 0xf; op {
	case 0, 1, 2, 3:
		h.start(name, newest)
	case 4, 5, 6, 7:
		h.exit(newest, int32(step>>6)*3)
	case 8, 9:
		h.removeOf(name, op == 8)
	case 10, 11:
		h.lose(newest, op == 10)
	case 12:
		h.last = "our process restarts"
		if h.cached != nil {
			h.pod.Status = *h.cached.DeepCopy()
			h.cached = nil
		}
		clear(h.waiting)
	case 13:
		h.last = "toggle the waiting reason of " + name
		h.waiting[name] = !h.waiting[name]
	case 14:
		switch {
		case step>>4 == 15:
			h.last = "delete"
			h.pod.DeletionTimestamp = &metav1.Time{Time: h.now}
		case step>>4 >= 10:
			h.removeAll()
		}
	case 15:
		if newest != nil {
			h.last = "probe of " + newest.ID
			h.probes[newest.ID] = podrules.ProbeResult(step >> 4 % 3)
		}
	}
}

// removeAll does what follows when a rule asks for it: every record goes, and each container has to start anew.
func (h *history) removeAll() {
	if !podrules.RestartAllTriggered(h.pod, &h.facts) || podrules.Terminal(h.phase) {
		return
	}
	h.last = "removal of all"
	h.facts.Containers = slices.DeleteFunc(h.facts.Containers, func(r cri.ContainerStatus) bool { return r.Name != "e" })
	h.restarting = true
}

func (h *history) exit(r *cri.ContainerStatus, code int32) {
	if r == nil || r.State != cri.ContainerRunning {
		return
	}
	h.last = "exit of " + r.ID
	r.State, r.FinishedAt, r.ExitCode, r.Reason = cri.ContainerExited, h.now, code, "Error"
	h.codes[containerID(r)] = code
}

// removeOf removes the newest record of a container, or the oldest of those that do not run.
func (h *history) removeOf(name string, newest bool) {
	var ids []string
	for _, r := range h.facts.Containers {
		if r.Name == name && (newest || r.State != cri.ContainerRunning) {
			ids = append(ids, r.ID)
		}
	}
	if len(ids) == 0 {
		return
	}
	id := ids[0]
	if !newest {
		id = ids[len(ids)-1]
	}
	h.last = "removal of " + id
	h.facts.Containers = slices.DeleteFunc(h.facts.Containers, func(r cri.ContainerStatus) bool { return r.ID == id })
}

// lose makes the runtime forget the state of a record, or only its exit code.
func (h *history) lose(r *cri.ContainerStatus, state bool) {
	switch {
	case r == nil:
	case state:
		h.last = "the runtime loses the state of " + r.ID
		r.State, r.ExitCode, r.Reason = cri.ContainerUnknown, 0, ""
	default:
		h.last = "the runtime loses the exit code of " + r.ID
		r.State, r.FinishedAt = cri.ContainerExited, h.now
		r.ExitCode, r.Reason = runtimeExitCodeUnknown, runtimeReasonUnknown
	}
}

// start makes a new instance as podsync does: numbered after the newest record, or from 0 if there is none.
func (h *history) start(name string, newest *cri.ContainerStatus) {
	if name == "e" && h.cached != nil && h.cached.EphemeralContainerStatuses[0].ContainerID != "" {
		return // it is made once
	}
	if newest != nil && newest.State == cri.ContainerRunning || h.pod.DeletionTimestamp != nil || podrules.Terminal(h.phase) {
		return
	}
	h.last = "start " + name
	h.ids++
	r := cri.ContainerStatus{
		ID: fmt.Sprintf("%s%d", name, h.ids), Name: name, SandboxID: "sb", State: cri.ContainerRunning,
		CreatedAt: h.now, StartedAt: h.now,
	}
	if newest != nil {
		r.RestartCount = newest.RestartCount + 1
	}
	h.facts.Containers = append([]cri.ContainerStatus{r}, h.facts.Containers...)
}

func (h *history) look(t *testing.T, when string) {
	t.Helper()
	// Every observation is a copy of its own, as from the pod cache.
	facts := h.facts
	facts.Containers = slices.Clone(h.facts.Containers)
	status := Generate(Input{
		Pod: h.pod, Runtime: &facts, Cached: h.cached, Now: h.now,
		WaitingReason: func(name string) (string, string, bool) {
			if h.restarting {
				return reasonRestartingAll, messageRestartingAll, true
			}
			return "CrashLoopBackOff", "back-off", h.waiting[name]
		},
		Probes: h,
	})
	h.restarting = false
	h.check(t, when, &status)
	h.cached = &status
}

// end checks what the final status says.
func (h *history) end(t *testing.T) {
	t.Helper()
	status := final(h.pod, h.cached, h.now)
	h.check(t, "at the end", &status)
	if !podrules.Terminal(status.Phase) {
		t.Errorf("the final phase is %s", status.Phase)
	}
	for _, st := range status.ContainerStatuses {
		if len(h.pod.Spec.InitContainers) == 0 && st.State.Terminated == nil {
			t.Errorf("container %s has not ended in the final status", st.Name)
		}
	}
}

func (h *history) checkReady(t *testing.T, when string, st *v1.ContainerStatus) {
	t.Helper()
	if c, _ := podrules.Find(h.pod, st.Name); st.Ready && (st.Name == "e" || st.State.Running != nil &&
		(!*st.Started || c.ReadinessProbe != nil && h.probes[h.facts.Newest(st.Name).ID] == podrules.ProbeFailed)) {
		t.Errorf("%s: %s is said to be ready", when, st.Name)
	}
}

func statesIn(state *v1.ContainerState) int {
	states := 0
	for _, set := range []bool{state.Waiting != nil, state.Running != nil, state.Terminated != nil} {
		if set {
			states++
		}
	}
	return states
}

func (h *history) check(t *testing.T, when string, status *v1.PodStatus) {
	t.Helper()
	if podrules.Terminal(h.phase) && status.Phase != h.phase {
		t.Errorf("%s: the phase went from %s to %s", when, h.phase, status.Phase)
	}
	h.phase = status.Phase
	told := map[string]int32{}
	for _, st := range slices.Concat(
		status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses) {
		h.checkReady(t, when, &st)
		if st.RestartCount < h.counts[st.Name] {
			t.Errorf("%s: the restart count of %s fell from %d to %d", when, st.Name, h.counts[st.Name], st.RestartCount)
		}
		h.counts[st.Name] = st.RestartCount
		for _, state := range []v1.ContainerState{st.State, st.LastTerminationState} {
			if statesIn(&state) > 1 {
				t.Errorf("%s: %s is in several states at once: %+v", when, st.Name, state)
			}
			if ended := state.Terminated; ended != nil && ended.ContainerID != "" {
				told[ended.ContainerID] = ended.ExitCode
			}
		}
		if isSame(st.State.Terminated, st.LastTerminationState.Terminated) {
			t.Errorf("%s: %s has the same end as its state and as its last state", when, st.Name)
		}
		if st.State.Running != nil && h.facts.Newest(st.Name).State != cri.ContainerRunning {
			t.Errorf("%s: %s is said to run and does not", when, st.Name)
		}
	}
	for id, code := range told {
		if known, ok := h.told[id]; ok && code != known {
			t.Errorf("%s: exit code %d of %s became %d", when, known, id, code)
		}
	}
	clear(h.told)
	for id, code := range told {
		if actual, ok := h.codes[id]; ok && code == actual {
			h.told[id] = code
		}
	}
}
