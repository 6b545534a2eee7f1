// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

// TestPodsSurviveAnyOrderOfTrouble syncs pods while containers end, sandboxes die, records vanish, answers get lost, the
// image changes and the process restarts, in an order made of a seed. The runtime watches that no name runs twice and
// that nothing is killed without its grace period; when the trouble is over, each pod must do what it is for.
func TestPodsSurviveAnyOrderOfTrouble(t *testing.T) {
	for seed := range uint64(60) {
		if ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newTrouble(t, seed).run(t) })
		}); !ok {
			return
		}
	}
}

type trouble struct {
	*bench
	r        *rand.Rand
	injected []*fakecri.Injection
	// number is the highest restart count of a container of the name that was started, by the id of the container.
	number map[string]uint32
	seen   map[string]bool
	// done are the init containers that succeeded, as "SANDBOX NAME".
	done map[string]bool
	log  []string
}

func newTrouble(t *testing.T, seed uint64) *trouble {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 2))
	policy := []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever}[r.IntN(4)]
	containers := []string{"web", "web,side", "one|web", "one,two|web,side", "proxy,one|web", "one,proxy|web,side"}[r.IntN(6)]
	u := &trouble{
		bench: newBench(fakecri.Start(t, fakecri.Options{Skew: time.Duration(r.IntN(3)-1) * time.Hour}), policy, containers),
		r:     r, number: map[string]uint32{}, seen: map[string]bool{}, done: map[string]bool{},
		log: []string{string(policy) + " " + containers},
	}
	mark(t, u.pod, "web:hook web:liveness")
	if c, _ := podrules.Find(u.pod, "proxy"); c != nil {
		mark(t, u.pod, "proxy:sidecar proxy:liveness")
	}
	if r.IntN(2) == 0 {
		mark(t, u.pod, "web:"+map[v1.RestartPolicy]string{always: "always", onFailure: "onfailure", never: "never"}[policy]+" web:all42")
	}
	if r.IntN(2) == 0 {
		u.pod.Spec.EphemeralContainers = debugContainer("")
	}
	return u
}

func (u *trouble) run(t *testing.T) {
	defer func() {
		if t.Failed() {
			t.Logf("%q", u.log)
		}
	}()
	for range 40 {
		u.happen(t)
		u.step(t)
	}
	for _, i := range u.injected {
		i.Remove()
	}
	u.settle(t)
}

func (u *trouble) note(format string, args ...any) {
	u.log = append(u.log, fmt.Sprintf(format, args...))
}

// happen makes one thing happen.
func (u *trouble) happen(t *testing.T) {
	t.Helper()
	switch u.r.IntN(11) {
	case 0, 1:
		u.end([]int32{0, 0, 1, 42}[u.r.IntN(4)])
	case 10:
		if c, ok := u.pick(runtimeapi.ContainerState_CONTAINER_RUNNING); ok {
			u.note("%s/%d is not alive", c.Name, c.Attempt)
			u.probes[string(podrules.LivenessProbe)+" "+c.ID] = podrules.ProbeFailed
		}
	case 2:
		if boxes := u.rt.Sandboxes(u.pod.UID); len(boxes) > 0 {
			u.note("sandbox dies")
			u.rt.KillSandbox(boxes[len(boxes)-1].ID)
		}
	case 3:
		if c, ok := u.pick(runtimeapi.ContainerState_CONTAINER_RUNNING); ok {
			u.note("%s/%d is lost", c.Name, c.Attempt)
			u.rt.Lose(c.ID)
		}
	case 4:
		u.vanish(t)
	case 5, 6:
		u.inject()
	case 7:
		u.note("restart")
		u.restart()
	case 8:
		time.Sleep(time.Duration(u.r.IntN(120)) * time.Second)
	case 9:
		i := u.r.IntN(len(u.pod.Spec.Containers))
		u.pod = u.pod.DeepCopy()
		u.pod.Spec.Containers[i].Image += "x"
		u.note("image of %s changes", u.pod.Spec.Containers[i].Name)
	}
}

func (u *trouble) pick(state runtimeapi.ContainerState) (fakecri.Container, bool) {
	var of []fakecri.Container
	for _, c := range u.rt.Containers(u.pod.UID) {
		if c.State == state {
			of = append(of, c)
		}
	}
	if len(of) == 0 {
		return fakecri.Container{}, false
	}
	return of[u.r.IntN(len(of))], true
}

func (u *trouble) end(code int32) {
	c, ok := u.pick(runtimeapi.ContainerState_CONTAINER_RUNNING)
	if !ok {
		return
	}
	u.note("%s/%d exits %d", c.Name, c.Attempt, code)
	u.rt.Exit(c.ID, code)
	if code == 0 {
		u.done[c.SandboxID+" "+c.Name] = true
	}
}

// vanish removes the record of an ended container. Without the API's status, which is not part of this, it would make a
// container that must not run again run again, so it only happens to pods that restart everything.
func (u *trouble) vanish(t *testing.T) {
	t.Helper()
	c, ok := u.pick(runtimeapi.ContainerState_CONTAINER_EXITED)
	if !ok || u.pod.Spec.RestartPolicy != v1.RestartPolicyAlways {
		return
	}
	u.note("record %s/%d vanishes", c.Name, c.Attempt)
	if err := u.rt.Client().RemoveContainer(t.Context(), c.ID); err != nil {
		u.note("not: %v", err)
	}
}

func (u *trouble) inject() {
	methods := []string{"RunPodSandbox", "StopPodSandbox", "PullImage", "CreateContainer", "StartContainer", "StopContainer", "RemoveContainer"}
	f := fakecri.Fault{Method: methods[u.r.IntN(len(methods))], Times: 1}
	switch u.r.IntN(3) {
	case 0:
		f.Lost = true
	case 1:
		f.Err = errdefs.ErrUnavailable
	case 2:
		f.Err = errors.New("broken")
	}
	u.note("fault %s lost=%t %v", f.Method, f.Lost, f.Err)
	u.injected = append(u.injected, u.rt.Inject(f))
}

// step syncs once and checks what came of it.
func (u *trouble) step(t *testing.T) {
	t.Helper()
	before := u.observe(t)
	past := podrules.PastInit(u.pod, before)
	r := u.syncer.Sync(t.Context(), u.pod, before)
	var records []string
	for _, c := range u.rt.Containers(u.pod.UID) {
		records = append(records, fmt.Sprintf("%s/%d@%s %s", c.Name, c.Attempt, c.SandboxID[60:], c.State))
		if _, kind := podrules.Find(u.pod, c.Name); kind == podrules.InitContainer && past && !c.StartedAt.IsZero() && !u.seen[c.ID] &&
			c.SandboxID == before.ReadySandbox().ID {
			t.Errorf("%s was started in a sandbox that is past its init containers", c.Name)
		}
		u.check(t, c)
	}
	u.note("sync %v: %v", r.Err, records)
	u.publish()
}

func (u *trouble) check(t *testing.T, c fakecri.Container) {
	t.Helper()
	if c.StartedAt.IsZero() || u.seen[c.ID] {
		return
	}
	u.seen[c.ID] = true
	if last, again := u.number[c.Name]; again && c.Attempt <= last {
		t.Errorf("%s was started with number %d after number %d", c.Name, c.Attempt, last)
	}
	_, again := u.number[c.Name]
	u.number[c.Name] = c.Attempt
	if _, kind := podrules.Find(u.pod, c.Name); kind == podrules.EphemeralContainer {
		if again {
			t.Errorf("%s was started twice", c.Name)
		}
		return
	}
	for i, init := range u.pod.Spec.InitContainers {
		if init.Name == c.Name {
			break
		}
		if !u.done[c.SandboxID+" "+init.Name] && !podrules.IsSidecar(&init) {
			t.Errorf("%s was started in a sandbox in which init container %d had not succeeded", c.Name, i)
		}
	}
}

// publish does what the status of the API and the log files on the host do: they remember numbers.
func (u *trouble) publish() {
	u.pod = u.pod.DeepCopy()
	u.pod.Status = v1.PodStatus{}
	for name, n := range u.number {
		if _, kind := podrules.Find(u.pod, name); kind == podrules.EphemeralContainer {
			u.pod.Status.EphemeralContainerStatuses = []v1.ContainerStatus{
				{Name: name, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}},
			}
			continue
		}
		u.pod.Status.ContainerStatuses = append(u.pod.Status.ContainerStatuses, v1.ContainerStatus{Name: name, RestartCount: int32(n)})
		u.logs.next[name] = int32(n) + 1
	}
}

// settle lets the pod come to rest without trouble: init containers succeed, regular ones run on.
func (u *trouble) settle(t *testing.T) {
	for range 20 {
		time.Sleep(6 * time.Minute)
		u.step(t)
		for _, c := range u.rt.Containers(u.pod.UID) {
			if c.Alive && kindOf(u.pod, c.Name) == podrules.InitContainer {
				u.rt.Exit(c.ID, 0)
				u.done[c.SandboxID+" "+c.Name] = true
			}
		}
	}
	running := u.rt.Running(u.pod.UID)
	for _, c := range u.pod.Spec.Containers {
		newest, _ := u.rt.Newest(u.pod.UID, c.Name)
		switch {
		case slices.Contains(running, c.Name):
			if u.hooks.ended["postStart "+newest.ID] == nil && c.Lifecycle != nil {
				t.Errorf("%s runs and its postStart hook was never run", c.Name)
			}
			if got := newest.Config.GetImage().GetUserSpecifiedImage(); got != c.Image {
				t.Errorf("%s runs %s, want %s", c.Name, got, c.Image)
			}
		case u.pod.Spec.RestartPolicy == v1.RestartPolicyAlways:
			t.Errorf("%s does not run", c.Name)
		case u.pod.Spec.RestartPolicy == v1.RestartPolicyOnFailure && (newest.ID == "" || newest.ExitCode != 0):
			t.Errorf("%s neither runs nor succeeded: %+v", c.Name, newest)
		}
	}
}
