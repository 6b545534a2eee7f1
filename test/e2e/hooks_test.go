// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// postStart gives the pod's main container a hook.
func postStart(handler v1.LifecycleHandler) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &handler} }
}

func execHook(script string) v1.LifecycleHandler {
	return v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"sh", "-c", script}}}
}

func httpHook(path string) v1.LifecycleHandler {
	return v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Path: path, Port: intstr.FromInt32(httpPort)}}
}

func sleepHook(seconds int64) v1.LifecycleHandler {
	return v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: seconds}}
}

// answers is a script that serves HTTP and marks each request of /cgi-bin/hook. It takes some seconds to stop.
func answers(mark, stop string) string {
	return fmt.Sprintf(`mkdir -p /www/cgi-bin; printf '#!/bin/sh\necho x >> /marks/%[1]s\nprintf "Content-Type: text/plain\\r\\n\\r\\nok"\n' > /www/cgi-bin/hook
chmod +x /www/cgi-bin/hook; httpd -f -p %[2]d -h /www & trap "touch /marks/web-term; %[3]s; exit 0" TERM; sleep 1d & while :; do wait; done`, mark, httpPort, stop)
}

// web adds a container, first of all, that answers. The next is started when it listens.
func web(mark, stop string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		c := shell("web", answers(mark, stop))
		listens := execHook(fmt.Sprintf(`until grep -qi ':%04x ' /proc/net/tcp*; do sleep 0.1; done`, httpPort))
		c.Lifecycle = &v1.Lifecycle{PostStart: &listens}
		p.Spec.Containers = append([]v1.Container{c}, p.Spec.Containers...)
	}
}

// TestPostStartHookRunsOnceBeforeTheContainerIsReady: each kind.
func TestPostStartHookRunsOnceBeforeTheContainerIsReady(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	for _, tc := range []struct {
		name  string
		hook  v1.LifecycleHandler
		edit  func(*v1.Pod)
		takes time.Duration
	}{
		{name: "exec", hook: execHook(`echo x >> /marks/exec; sleep 3; touch /marks/exec-ended`), takes: 3 * time.Second},
		{name: "http", hook: httpHook("/cgi-bin/hook"), edit: web("http", "true")},
		{name: "sleep", hook: sleepHook(3), edit: grace(10), takes: 3 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			k := k.part(t)
			edits := []func(*v1.Pod){postStart(tc.hook)}
			if tc.edit != nil {
				edits = append(edits, tc.edit)
			}
			pod := k.create(k.pod(tc.name, `touch /marks/`+tc.name+`-up; exec sleep 1d`, edits...))
			k.awaitMark(tc.name + "-up")
			if got, err := k.get(pod); err != nil || tc.takes > 0 && (ready(got) == nil || got.Status.Phase != v1.PodPending) {
				t.Errorf("before the end of the hook: %v, %+v", err, got.Status)
			}
			pod = k.awaitPodReady(pod)
			// The mark may come long after the start, since its program has to get a processor; the API has whole seconds.
			status := pod.Status.ContainerStatuses[len(pod.Status.ContainerStatuses)-1]
			if state := status.State.Running; state == nil || time.Since(state.StartedAt.Time) < tc.takes {
				t.Errorf("Ready too early: %+v", status)
			}
			if tc.name != "sleep" && k.lines(tc.name) != 1 {
				t.Errorf("the hook ran %d times", k.lines(tc.name))
			}
			k.requireUntouched(pod)
		})
	}
}

func TestContainerWhosePostStartHookFailsIsRestarted(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.create(k.pod("second-try", `exec sleep 1d`, postStart(execHook(`echo x >> /marks/hook; echo too early; test $(wc -l < /marks/hook) -ge 2`))))
	k.awaitEvent(pod, "FailedPostStartHook", "PostStartHook failed")
	k.awaitEvent(pod, "Killing", "FailedPostStartHook")
	pod = k.await(pod, usual, "was restarted", runsAgain(1))
	k.awaitPodReady(pod)
	if n := k.lines("hook"); n != 2 {
		t.Errorf("the hook ran %d times", n)
	}
}

// TestPreStopHookAsksASiblingThatTakesItsTime: the network is there until all have ended.
func TestPreStopHookAsksASiblingThatTakesItsTime(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	hook := httpHook("/cgi-bin/hook")
	pod := k.awaitPodReady(k.create(k.pod("family", serves("main", "true", "true"), grace(60), func(p *v1.Pod) {
		p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &hook}
	}, web("hook", "sleep 3"))))
	k.awaitMark("main-ready")
	d := k.watchDeletion(pod, usual)
	k.requireStopped(d)
	if n := k.lines("hook"); n != 1 {
		t.Errorf("the sibling was asked %d times", n)
	}
	k.requireOrder("hook", "main-term")
	if len(k.eventsOf(pod, "FailedPreStopHook")) > 0 {
		t.Error("the hook is told to have failed")
	}
	if took := d.gone.Sub(d.began); took < 3*time.Second || took > 30*time.Second { // half the grace period
		t.Errorf("the deletion took %v", took)
	}
	k.awaitCollected(pod)
}

func TestPreStopHookThatSleepsDelaysTheSignal(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	hook := sleepHook(3)
	pod := k.awaitPodReady(k.create(k.pod("drowsy", serves("main", "true", "true"), grace(60), func(p *v1.Pod) {
		p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &hook}
	})))
	k.awaitMark("main-ready")
	d := k.watchDeletion(pod, usual)
	k.requireStopped(d)
	if delay := k.marked("main-term").Sub(d.began); delay < 3*time.Second || delay > 30*time.Second { // half the grace period
		t.Errorf("SIGTERM after %v", delay)
	}
	k.awaitCollected(pod)
}

func TestContainerThatEndsDuringItsPreStopHookIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.awaitPodReady(k.create(k.pod("hasty", `until [ -e /marks/hook ]; do sleep 0.1; done; sleep 3; exit 0`, grace(100), preStop(`touch /marks/hook; sleep 90`))))
	d := k.watchDeletion(pod, usual)
	k.requireStopped(d)
	if took := d.gone.Sub(d.began); took < 3*time.Second || took > 45*time.Second { // half of what the hook takes
		t.Errorf("the deletion took %v", took)
	}
	if state := d.last.Status.ContainerStatuses[0].State.Terminated; state == nil || state.ExitCode != 0 || state.Reason != "Completed" {
		t.Errorf("the container ended as %+v", state)
	}
	if n := len(k.eventsOf(pod, "FailedPreStopHook")); n > 1 {
		t.Errorf("%d warnings", n)
	}
	k.awaitCollected(pod)
}

// TestPodThatRanTooLongFailsWhenItsContainersAreGone: one that ignores its stop signal.
func TestPodThatRanTooLongFailsWhenItsContainersAreGone(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	const deadline = time.Minute // counts from before the sandbox is made
	pod := k.create(k.pod("overdue", `trap "touch /marks/term" TERM; sleep 1d & while :; do wait; done`, grace(10), func(p *v1.Pod) {
		p.Spec.ActiveDeadlineSeconds = new(int64(deadline.Seconds()))
	}))
	k.awaitMark("term")
	got, err := k.get(pod)
	must(t, err)
	if got.Status.Phase == v1.PodFailed || len(k.running(t, pod.UID)) != 1 {
		t.Errorf("it is %s while it is being stopped", got.Status.Phase)
	}
	pod = k.awaitPhase(pod, v1.PodFailed)
	if running := k.running(t, pod.UID); len(running) > 0 {
		t.Errorf("it has failed and runs: %v", running)
	}
	if pod.Status.Reason != "DeadlineExceeded" || pod.Status.Message != "Pod was active on the node longer than the specified deadline" {
		t.Errorf("status %s: %s", pod.Status.Reason, pod.Status.Message)
	}
	state := pod.Status.ContainerStatuses[0].State.Terminated
	if state == nil || state.ExitCode != 137 {
		t.Fatalf("the container ended as %+v", state)
	}
	if took := state.FinishedAt.Sub(pod.Status.StartTime.Time); took < deadline+9*time.Second || took > deadline+40*time.Second {
		t.Errorf("killed %v after the pod's start, want %v and 10 s of grace", took, deadline)
	}
	k.awaitEvent(pod, "DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
}
