// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// TestComputeActionsKeepsItsPromises looks at very many pods in states that may or may not come about.
func TestComputeActionsKeepsItsPromises(t *testing.T) {
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 1))
		pod, status := randomPod(t, r)
		before := snapshot(status)
		a := ComputeActions(Input{Pod: pod, Status: status})
		for _, broken := range brokenPromises(pod, status, a) {
			t.Errorf("seed %d: %s\nsandboxes %+v\nrecords %v\nactions %q", seed, broken, status.Sandboxes, before, summary(pod, a))
		}
		if diff := cmp.Diff(before, snapshot(status)); diff != "" {
			t.Errorf("seed %d: the observation was changed:\n%s", seed, diff)
		}
		if t.Failed() {
			return
		}
	}
}

func randomPod(t *testing.T, r *rand.Rand) (*v1.Pod, *cri.PodStatus) {
	t.Helper()
	policies := []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever}
	pod := testPod(policies[r.IntN(3)], []string{"web", "web,side", "one|web", "one,two|web,side", "proxy,one|web", "one,proxy|web,side"}[r.IntN(6)])
	if c, _ := podrules.Find(pod, "proxy"); c != nil {
		mark(t, pod, "proxy:sidecar")
	}
	sandboxes := []string{"", "0+", "0-", "1+ 0-", "1- 0-", "1+ 0+", "1- 0+"}[r.IntN(7)]
	states := []string{"created", "running", "running", "changed", "unknown", "oom", "exit0", "exit0", "exit1"}
	names := []string{}
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		names = append(names, c.Name)
	}
	var records []string
	for range r.IntN(6) {
		records = append(records, fmt.Sprintf("%s@%d %s", names[r.IntN(len(names))], r.IntN(2), states[r.IntN(len(states))]))
	}
	return pod, testStatus(t, pod, sandboxes, records...)
}

func snapshot(status *cri.PodStatus) []string {
	var out []string
	for _, c := range status.Containers {
		out = append(out, fmt.Sprintf("%s in %s: %s %d %s", c.ID, c.SandboxID, c.State, c.ExitCode, c.Hash))
	}
	return out
}

// promises are what must hold of any actions.
type promises struct {
	pod    *v1.Pod
	status *cri.PodStatus
	a      Actions
	killed map[string]bool
	broken []string
}

func (p *promises) must(kept bool, format string, args ...any) {
	if !kept {
		p.broken = append(p.broken, fmt.Sprintf(format, args...))
	}
}

func brokenPromises(pod *v1.Pod, status *cri.PodStatus, a Actions) []string {
	p := &promises{pod: pod, status: status, a: a, killed: map[string]bool{}}
	p.ofKills()
	p.ofStarts()
	for i := range status.Containers {
		p.ofRecord(&status.Containers[i])
	}
	return p.broken
}

func (p *promises) ofKills() {
	for _, k := range p.a.ToKill {
		p.must(!p.killed[k.Container.ID], "%s is killed twice", k.Container.ID)
		p.must(k.Container.MayRun(), "%s is killed and does not run", k.Container.ID)
		p.killed[k.Container.ID] = true
	}
	p.must(!p.a.KillPod || len(p.a.ToKill) == 0, "single containers are killed besides the pod")
}

func (p *promises) ofStarts() {
	a, past := p.a, podrules.PastInit(p.pod, p.status)
	inits := 0 // sidecars start beside anything
	for _, i := range a.InitToStart {
		if !podrules.IsSidecar(&p.pod.Spec.InitContainers[i]) {
			inits++
		}
	}
	p.must(!a.KillPod || a.CreateSandbox || !a.starts(), "something is started in a sandbox that is stopped")
	p.must(!a.CreateSandbox || a.SandboxID == "", "a sandbox is made and another is to be used")
	p.must(inits == 0 || len(a.ToStart) == 0, "init and regular containers are started together")
	p.must(inits <= 1, "several init containers are started together")
	p.must(inits == 0 || a.CreateSandbox || !past, "an init container is started after the regular ones")
	if len(a.ToStart) > 0 && len(p.pod.Spec.InitContainers) > 0 {
		p.must(!a.CreateSandbox, "regular containers are started in a new sandbox before the init containers")
		p.must(past || lastInitSucceeded(p.pod, p.status, a.SandboxID), "regular containers are started before the init containers are done")
	}
}

func (p *promises) ofRecord(record *cri.ContainerStatus) {
	need := podrules.SandboxNeedOf(p.pod, p.status)
	newest := record == p.status.Newest(record.Name)
	dies, again := p.a.KillPod || p.killed[record.ID], isStarted(p.pod, p.a, record.Name)
	p.must(!record.MayRun() || dies || !again, "%s may run and its name is started again", record.ID)
	if !isRegular(p.pod, record.Name) || !newest {
		return
	}
	healthy := !need.New && record.SandboxID == need.SandboxID && record.State == cri.ContainerRunning && record.Hash != "bad"
	p.must(!healthy || !dies, "%s is healthy and is killed", record.ID)
	if record.State == cri.ContainerExited && again {
		p.must(podrules.Restartable(p.pod, &v1.Container{}, record.ExitCode), "%s ended for good and is started again", record.ID)
	}
}

func isStarted(pod *v1.Pod, a Actions, name string) bool {
	for _, i := range a.ToStart {
		if pod.Spec.Containers[i].Name == name {
			return true
		}
	}
	for _, i := range a.InitToStart {
		if pod.Spec.InitContainers[i].Name == name {
			return true
		}
	}
	return false
}

func lastInitSucceeded(pod *v1.Pod, status *cri.PodStatus, sandboxID string) bool {
	c := &pod.Spec.InitContainers[len(pod.Spec.InitContainers)-1]
	last := c.Name
	for i := range status.Containers {
		record := &status.Containers[i]
		if record.Name == last && record.SandboxID == sandboxID {
			if podrules.IsSidecar(c) {
				return record.State == cri.ContainerRunning
			}
			return record.State == cri.ContainerExited && !podrules.InitFailed(record)
		}
	}
	return false
}
