// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/test/fakecri"
)

func withActiveDeadline(seconds int64) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.ActiveDeadlineSeconds, p.Spec.TerminationGracePeriodSeconds = &seconds, new(int64(30))
	}
}

// deadlineOf is when the active time of the pod in the API ends.
func (w *world) deadlineOf(p *v1.Pod) time.Time {
	return p.Status.StartTime.Add(time.Duration(*p.Spec.ActiveDeadlineSeconds) * time.Second)
}

func TestPodPastItsActiveDeadlineFailsOnlyWhenItsContainersAreGone(t *testing.T) {
	for name, restart := range map[string]bool{"same process": false, "process restarted before the deadline": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.cri.Behave(fakecri.Selector{Container: "main"}, fakecri.Behaviour{OnTERM: fakecri.TERM{Ignore: true}})
				w.api.create(testPod("a", withActiveDeadline(45)))
				w.eventually("running", 10*time.Second, w.running("a"))
				deadline := w.deadlineOf(w.api.get("a"))
				if restart {
					w.restart()
				}
				time.Sleep(time.Until(deadline) + 20*time.Second)
				if p := w.api.get("a"); p.Status.Phase != v1.PodRunning || len(w.cri.Running("a")) != 1 {
					t.Fatalf("phase %s with %v running, want Running and main", p.Status.Phase, w.cri.Running("a"))
				}
				w.eventually("failed", 20*time.Second, func() bool { return w.api.get("a").Status.Phase == v1.PodFailed })
				p := w.api.get("a")
				end := p.Status.ContainerStatuses[0].State.Terminated
				if p.Status.Reason != "DeadlineExceeded" || end == nil || end.ExitCode != 137 {
					t.Errorf("reason %q, container %+v; want DeadlineExceeded and exit code 137", p.Status.Reason, end)
				}
				c, _ := w.cri.Newest("a", "main")
				if late := c.Signals[0].At.Sub(deadline); late < 0 || late > time.Second {
					t.Errorf("the stop signal came %s after the deadline", late)
				}
			})
		})
	}
}

func TestDeadlineIsToldInOneEventWhereverTheProcessRestarts(t *testing.T) {
	for name, restartAt := range map[string]time.Duration{
		"before the deadline": -5 * time.Second, "between the deadline and the end": 15 * time.Second, "after the end": 45 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.cri.Behave(fakecri.Selector{Container: "main"}, fakecri.Behaviour{OnTERM: fakecri.TERM{Ignore: true}})
				w.api.create(testPod("a", withActiveDeadline(45)))
				w.eventually("running", 10*time.Second, w.running("a"))
				time.Sleep(time.Until(w.deadlineOf(w.api.get("a"))) + restartAt)
				w.restart()
				w.eventually("failed", time.Minute, func() bool { return w.api.get("a").Status.Phase == v1.PodFailed })
				time.Sleep(time.Minute)
				var told []string
				for len(w.recorder.Events) > 0 {
					if event := <-w.recorder.Events; strings.Contains(event, "DeadlineExceeded") {
						told = append(told, event)
					}
				}
				want := []string{"Normal DeadlineExceeded Pod was active on the node longer than the specified deadline"}
				if diff := cmp.Diff(want, told); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestActiveDeadlineAbandonsAPull(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cri.Inject(fakecri.Fault{Method: "PullImage", Hang: true})
		w.api.create(testPod("a", withActiveDeadline(20)))
		w.eventually("failed", 25*time.Second, func() bool { return w.api.get("a").Status.Phase == v1.PodFailed })
		if got := w.api.get("a").Status.Reason; got != "DeadlineExceeded" {
			t.Errorf("reason %q", got)
		}
	})
}

func TestPodDeletedDuringALongLinkLossStillHasTimeForItsHookAndItsEnd(t *testing.T) {
	inWorld(t, func(w *world) {
		w.guardI1()
		w.cri.Behave(fakecri.Selector{Container: "main"}, fakecri.Behaviour{OnTERM: fakecri.TERM{Ignore: true}})
		w.api.create(testPod("a", withPreStop))
		w.eventually("running", 10*time.Second, w.running("a"))
		w.cri.Cut()
		w.api.delete("a", 30)
		time.Sleep(5 * time.Minute)
		w.cri.Mend()
		w.eventually("gone", 30*time.Second, w.gone("a"))
		if n := len(w.host.hookRuns()); n != 1 {
			t.Errorf("preStop was asked for %d times", n)
		}
		c, _ := w.cri.Newest("a", "main")
		if len(c.Signals) != 2 {
			t.Fatalf("signals %+v, want TERM and KILL", c.Signals)
		}
		if between := c.Signals[1].At.Sub(c.Signals[0].At); between < 8*time.Second || between > 11*time.Second {
			t.Errorf("%s between TERM and KILL, want what is left of ten seconds", between)
		}
	})
}
