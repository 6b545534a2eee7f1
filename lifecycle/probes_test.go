// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/test/fakecri"
)

// programs answer exec probes; the command is the kind of the probe.
type programs struct {
	mu sync.Mutex
	// fail says which probes fail: "kind" in every container, "kind id" in one.
	fail map[string]bool
	hang map[types.UID]bool
	runs map[string]int
}

func (w *world) programs() *programs {
	p := &programs{fail: map[string]bool{}, hang: map[types.UID]bool{}, runs: map[string]int{}}
	w.cri.HandleExec(func(ctx context.Context, c fakecri.Container, cmd []string) (string, int32, error) {
		p.mu.Lock()
		p.runs[cmd[0]]++
		fail, hang := p.fail[cmd[0]] || p.fail[cmd[0]+" "+c.ID], p.hang[c.UID]
		p.mu.Unlock()
		if hang {
			<-ctx.Done()
			return "", 0, ctx.Err()
		}
		if fail {
			return cmd[0] + " says no", 1, nil
		}
		return "", 0, nil
	})
	return p
}

func (p *programs) set(what string, fail bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail[what] = fail
}

func (p *programs) ran(kind string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runs[kind]
}

func execProbe(kind string) *v1.Probe {
	return &v1.Probe{
		ProbeHandler:   v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{kind}}},
		TimeoutSeconds: 1, PeriodSeconds: 5, SuccessThreshold: 1, FailureThreshold: 2,
	}
}

func withLiveness(p *v1.Pod)  { p.Spec.Containers[0].LivenessProbe = execProbe("live") }
func withReadiness(p *v1.Pod) { p.Spec.Containers[0].ReadinessProbe = execProbe("ready") }
func withStartup(p *v1.Pod)   { p.Spec.Containers[0].StartupProbe = execProbe("start") }

func (w *world) main(uid types.UID) v1.ContainerStatus {
	if p := w.api.get(uid); p != nil && len(p.Status.ContainerStatuses) == 1 {
		return p.Status.ContainerStatuses[0]
	}
	return v1.ContainerStatus{}
}

func TestContainerThatFailsItsLivenessProbeIsRestarted(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.programs()
		w.api.create(testPod("a", withLiveness))
		w.eventually("running", 10*time.Second, w.running("a"))
		first, _ := w.cri.Newest("a", "main")
		p.set("live "+first.ID, true)
		w.eventually("restarted", 30*time.Second, func() bool { return w.main("a").RestartCount == 1 && w.main("a").Ready })
		time.Sleep(5 * time.Minute)
		if n := w.main("a").RestartCount; n != 1 {
			t.Errorf("%d restarts of a container that is well again", n)
		}
	})
}

func TestReadinessProbeTakesThePodOutAndIn(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.programs()
		p.set("ready", true)
		w.api.create(testPod("a", withReadiness))
		w.eventually("runs", 10*time.Second, func() bool { return w.main("a").State.Running != nil })
		time.Sleep(time.Minute)
		if ready(w.api.get("a")) || w.main("a").Ready {
			t.Fatal("ready before its probe succeeded")
		}
		p.set("ready", false)
		w.eventually("ready", 6*time.Second, func() bool { return ready(w.api.get("a")) })
		p.set("ready", true)
		w.eventually("not ready", 12*time.Second, func() bool { return !ready(w.api.get("a")) })
		if w.main("a").RestartCount != 0 {
			t.Error("a readiness probe restarted its container")
		}
	})
}

func TestReadinessIsShownWhileThePodsWorkerIsBusy(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.programs()
		w.cri.Behave(fakecri.Selector{Container: "main"}, fakecri.Behaviour{OnTERM: fakecri.TERM{After: 60 * time.Second}})
		w.api.create(testPod("a", withReadiness))
		w.eventually("ready", 10*time.Second, w.running("a"))
		w.api.delete("a", 120)
		time.Sleep(3 * time.Second)
		if !ready(w.api.get("a")) {
			t.Error("not ready as soon as it terminates")
		}
		p.set("ready", true)
		w.eventually("not ready while it terminates", 12*time.Second, func() bool {
			return w.api.get("a") != nil && !ready(w.api.get("a"))
		})
		w.eventually("gone", 2*time.Minute, w.gone("a"))
	})
}

func TestTerminatingContainerIsNotKilledByItsLivenessProbe(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.programs()
		w.cri.Behave(fakecri.Selector{Container: "main"}, fakecri.Behaviour{OnTERM: fakecri.TERM{After: 60 * time.Second}})
		w.api.create(testPod("a", withLiveness))
		w.eventually("running", 10*time.Second, w.running("a"))
		w.api.delete("a", 120)
		p.set("live", true)
		begin := time.Now()
		w.eventually("gone", 2*time.Minute, w.gone("a"))
		if took := time.Since(begin); took < 60*time.Second {
			t.Errorf("gone after %s, before it ended by itself", took)
		}
	})
}

func TestStartupProbeHoldsTheOthersBack(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.programs()
		p.set("start", true)
		w.api.create(testPod("a", withStartup, withLiveness, withReadiness, func(p *v1.Pod) {
			p.Spec.Containers[0].StartupProbe.FailureThreshold = 100
		}))
		w.eventually("runs", 10*time.Second, func() bool { return w.main("a").State.Running != nil })
		time.Sleep(time.Minute)
		if s := w.main("a"); p.ran("live")+p.ran("ready") > 0 || s.Ready || s.Started == nil || *s.Started {
			t.Fatalf("ready %t, started %v, %d other probes before it started", s.Ready, s.Started, p.ran("live")+p.ran("ready"))
		}
		p.set("start", false)
		w.eventually("ready", 6*time.Second, w.running("a"))
	})
}

func TestContainerThatDoesNotStartInTimeIsRestarted(t *testing.T) {
	inWorld(t, func(w *world) {
		w.programs().set("start", true)
		w.api.create(testPod("a", withStartup))
		w.eventually("restarted", 30*time.Second, func() bool { return w.main("a").RestartCount == 1 })
	})
}

func TestRestartOfTheProcessChangesNothingOfProbedContainers(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.programs()
		w.api.create(testPod("a", withStartup, withLiveness, withReadiness))
		w.eventually("ready", 20*time.Second, w.running("a"))
		p.set("start", true) // it could not start again
		starts := p.ran("start")
		w.restart()
		for range 60 {
			time.Sleep(time.Second)
			if !ready(w.api.get("a")) {
				t.Fatal("not ready after a restart of the process")
			}
		}
		if p.ran("start") != starts || w.main("a").RestartCount != 0 {
			t.Errorf("%d startup probes and %d restarts", p.ran("start")-starts, w.main("a").RestartCount)
		}
		p.set("live", true)
		w.eventually("restarted by liveness", 30*time.Second, func() bool { return w.main("a").RestartCount == 1 })
	})
}

func TestCutLinkRestartsNothingThatIsProbed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.programs()
		for i := range 5 {
			w.api.create(testPod(fmt.Sprint(i), withLiveness, withReadiness, withStartup))
		}
		for i := range 5 {
			w.eventually("ready", 20*time.Second, w.running(types.UID(fmt.Sprint(i))))
		}
		for _, cut := range []time.Duration{time.Second, 10 * time.Second, 5 * time.Minute} {
			w.cri.Cut()
			time.Sleep(cut)
			w.cri.Mend()
			time.Sleep(90 * time.Second)
		}
		for i := range 5 {
			uid := types.UID(fmt.Sprint(i))
			if w.main(uid).RestartCount != 0 || !ready(w.api.get(uid)) {
				t.Errorf("pod %s: %d restarts, ready %t", uid, w.main(uid).RestartCount, ready(w.api.get(uid)))
			}
		}
		if n := len(w.cri.Calls("StopContainer")); n != 0 {
			t.Errorf("%d containers were stopped", n)
		}
	})
}

func TestHangingExecProbeDelaysNoOtherPod(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.programs()
		p.hang["hang"] = true
		w.api.create(testPod("hang", withLiveness, withReadiness, func(p *v1.Pod) {
			p.Spec.Containers[0].LivenessProbe.TimeoutSeconds = 3600
			p.Spec.Containers[0].ReadinessProbe.TimeoutSeconds = 3600
		}))
		w.eventually("runs", 10*time.Second, func() bool { return w.main("hang").State.Running != nil })
		begin := time.Now()
		for i := range 20 {
			w.api.create(testPod(fmt.Sprint(i), withReadiness, withLiveness))
		}
		for i := range 20 {
			w.eventually("ready", 10*time.Second, w.running(types.UID(fmt.Sprint(i))))
		}
		alone := 3 * time.Second // of a pod without such a neighbour: relist and publication, no period of a probe
		if took := time.Since(begin); took > alone {
			t.Errorf("ready after %s", took)
		}
		p.set("ready", true)
		begin = time.Now()
		for i := range 20 {
			w.eventually("not ready", 12*time.Second, func() bool { return !ready(w.api.get(types.UID(fmt.Sprint(i)))) })
		}
		if took := time.Since(begin); took > 11*time.Second {
			t.Errorf("all not ready after %s, want two periods", took)
		}
		for i := range 20 {
			w.api.delete(types.UID(fmt.Sprint(i)), 30)
		}
		for i := range 20 {
			w.eventually("gone", 5*time.Second, w.gone(types.UID(fmt.Sprint(i))))
		}
		w.api.delete("hang", 30)
		w.eventually("the hanging one is gone", 10*time.Second, w.gone("hang"))
	})
}
