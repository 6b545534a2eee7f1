// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sort"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/lifecycle"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

// Result is what came of a run.
type Result struct {
	Violations []Violation
	Trace      string
}

// runOptions are for tests of the test, and for a reader.
type runOptions struct {
	// only are the operations that happen, by their place in time; all if it is nil.
	only   []int
	mutate func(*lifecycle.Options)
	logger *slog.Logger
}

// run plays a history in a bubble of its own, heals everything, waits until things settle and judges.
func run(t *testing.T, h *History, o runOptions) (result Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newSkewedWorld(t, h.Skew)
		w.Host.watches, w.mutate = h.Watches, o.mutate
		if o.logger != nil {
			w.logger = o.logger
		}
		guard := w.guard()
		p := &player{World: w, heals: map[string]func(){}}
		for _, f := range h.setup {
			f(w)
		}
		w.StartNode()
		ops := slices.Clone(h.Ops)
		slices.SortStableFunc(ops, func(a, b Op) int { return cmp.Compare(a.At, b.At) })
		for i, op := range ops {
			if o.only != nil && !slices.Contains(o.only, i) {
				continue
			}
			time.Sleep(op.At - time.Since(w.trace.begin))
			op.do(p)
		}
		p.heal()
		unsettled := p.settle()
		for _, text := range unsettled {
			guard.mu.Lock()
			guard.broken(time.Since(w.trace.begin), "I10", "%s", text)
			guard.mu.Unlock()
		}
		guard.mu.Lock()
		for _, v := range w.Runtime.Violations() {
			guard.broken(time.Since(w.trace.begin), invariantOf(v.Kind), "%s", v)
		}
		guard.mu.Unlock()
		p.close()
		result = Result{Violations: guard.Violations(), Trace: w.trace.String()}
	})
	return result
}

// heal ends every trouble; from now on containers that shall run do.
func (p *player) heal() {
	p.traps.disarm()
	for end := range maps.Values(p.heals) {
		end()
	}
	clear(p.heals)
	for _, name := range []string{"main", "side", "native"} {
		p.Runtime.Behave(fakecri.Selector{Container: name}, fakecri.Behaviour{})
	}
	p.API.Up()
	p.API.SetGap(false)
	p.API.SetHidden(false)
	p.Mend()
	p.sees(blindHost, "runtime", "runtime starts")
	p.StartNode()
	p.note("healed")
}

// Times of the end of a run: the longest back-off is five minutes.
const (
	settleStep = 5 * time.Second
	settleMost = 15 * time.Minute
)

// settle waits until everything is as it must be, and returns what is not when it never comes to that.
func (p *player) settle() []string {
	var bad []string
	for end := time.Now().Add(settleMost); time.Now().Before(end); {
		time.Sleep(settleStep)
		synctest.Wait()
		if bad = p.unsettled(); len(bad) == 0 {
			return nil
		}
	}
	return bad
}

// unsettled says what is not as it would be if nothing had ever gone wrong.
func (p *player) unsettled() []string {
	var bad []string
	live := p.API.live()
	for _, pod := range live {
		bad = append(bad, p.unsettledPod(pod)...)
	}
	for _, c := range p.Runtime.Containers("") {
		if live[c.UID] == nil {
			bad = append(bad, fmt.Sprintf("container %s/%s is left, alive: %t", c.UID, c.Name, c.Alive))
		}
	}
	for _, s := range p.Runtime.Sandboxes("") {
		if live[s.UID] == nil {
			bad = append(bad, fmt.Sprintf("a sandbox of %s is left", s.UID))
		}
	}
	for _, uid := range p.Host.Dirs() {
		if live[uid] == nil {
			bad = append(bad, fmt.Sprintf("the directory of %s is left", uid))
		}
	}
	slices.Sort(bad)
	return bad
}

func (p *player) unsettledPod(pod *v1.Pod) []string {
	alive := map[string]string{}
	for _, c := range p.Runtime.Containers(pod.UID) {
		if c.Alive {
			alive[c.Name] = "containerd://" + c.ID
		}
	}
	var bad []string
	add := func(format string, args ...any) {
		bad = append(bad, fmt.Sprintf("pod %s: ", pod.UID)+fmt.Sprintf(format, args...))
	}
	switch {
	case pod.DeletionTimestamp != nil:
		add("it is still being deleted")
	case terminal(pod) && len(alive) > 0:
		add("it is %s while %v live", pod.Status.Phase, alive)
	case terminal(pod) && pod.Spec.RestartPolicy == v1.RestartPolicyAlways && pod.Spec.ActiveDeadlineSeconds == nil:
		add("it is %s (%s)", pod.Status.Phase, pod.Status.Message)
	case !terminal(pod) && pod.Status.Phase != v1.PodRunning:
		add("it is %s", pod.Status.Phase)
	}
	for _, s := range containerStatuses(pod) {
		if running := s.State.Running != nil; running != (alive[s.Name] != "") || (running && s.ContainerID != alive[s.Name]) {
			add("container %s: the API says %s of %q, what lives is %q", s.Name, describe(s), s.ContainerID, alive[s.Name])
		}
	}
	if !terminal(pod) {
		bad = append(bad, missing(pod, alive)...)
	}
	return bad
}

// missing are containers that must run and do not.
func missing(pod *v1.Pod, alive map[string]string) []string {
	var bad []string
	for _, c := range pod.Spec.Containers {
		s := statusOf(pod, c.Name)
		mayBeDone := pod.Spec.RestartPolicy != v1.RestartPolicyAlways && s != nil && s.State.Terminated != nil &&
			(pod.Spec.RestartPolicy == v1.RestartPolicyNever || s.State.Terminated.ExitCode == 0)
		if alive[c.Name] == "" && !mayBeDone {
			bad = append(bad, fmt.Sprintf("pod %s: container %s does not run", pod.UID, c.Name))
		}
	}
	if pod.Spec.RestartPolicy == v1.RestartPolicyAlways && !ready(pod) {
		bad = append(bad, fmt.Sprintf("pod %s: it is not ready", pod.UID))
	}
	return bad
}

// shrink returns the operations, by their place in time, of which none can be left out for a violation of that invariant.
func shrink(t *testing.T, h *History, invariant string, o runOptions) []int {
	t.Helper()
	still := func(only []int) bool {
		o.only = only
		return breaks(run(t, Draw(h.Seed), o), invariant)
	}
	needed := make([]int, 0, len(h.Ops))
	for i := range h.Ops {
		needed = append(needed, i)
	}
	// First what follows the violation goes, then one after the other.
	if n := sort.Search(len(needed), func(n int) bool { return still(needed[:n]) }); still(needed[:n]) {
		needed = needed[:n]
	}
	for i := range slices.Backward(needed) {
		if without := slices.Delete(slices.Clone(needed), i, i+1); still(without) {
			needed = without
		}
	}
	return needed
}

func breaks(r Result, invariant string) bool {
	return slices.ContainsFunc(r.Violations, func(v Violation) bool { return v.Invariant == invariant })
}

// invariantOf is what a violation of the runtime's manners breaks: a container that was killed with its sandbox or its
// record got no hook and no grace period.
func invariantOf(k fakecri.ViolationKind) string {
	if k == fakecri.DoubleRunning {
		return "I2"
	}
	return "I4"
}
