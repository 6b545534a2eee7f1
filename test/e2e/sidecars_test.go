// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// sidecar adds a sidecar that runs the script.
func sidecar(name, script string, edit ...func(*v1.Container)) func(*v1.Pod) {
	return func(p *v1.Pod) {
		c := shell(name, script)
		c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		for _, e := range edit {
			e(&c)
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
}

// serves is a script that marks its start, its stop signal and, some time later, its end.
func serves(name, begin, end string) string {
	return fmt.Sprintf(`trap "touch /marks/%[1]s-term; %[3]s; touch /marks/%[1]s-end; exit 0" TERM; touch /marks/%[1]s-up; %[2]s; touch /marks/%[1]s-ready; sleep 1d & while :; do wait; done`,
		name, begin, end)
}

func startedBy(script string) func(*v1.Container) {
	return func(c *v1.Container) { c.StartupProbe = probe(60, execHandler(script)) }
}

// requireOrder fails unless the marks were all made, in this order.
func (k *tester) requireOrder(marks ...string) {
	k.Helper()
	var last time.Time
	for i, name := range marks {
		at := k.marked(name)
		if at.IsZero() {
			k.Errorf("no mark %s", name)
			continue
		}
		if at.Before(last) {
			k.Errorf("%s came %v before %s", name, last.Sub(at), marks[i-1])
		}
		last = at
	}
}

// job makes a Job of the pod and returns the pod that the controller made of it.
func (k *tester) job(pod *v1.Pod) *v1.Pod {
	k.Helper()
	_, err := k.client().BatchV1().Jobs(k.namespace).Create(k.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name},
		Spec:       batchv1.JobSpec{BackoffLimit: new(int32(0)), Template: v1.PodTemplateSpec{Spec: pod.Spec}},
	}, metav1.CreateOptions{})
	must(k.T, err)
	var made *v1.Pod
	eventually(k.T, usual, "the pod of job "+pod.Name, func() error {
		list, err := k.client().CoreV1().Pods(k.namespace).List(k.Context(), metav1.ListOptions{LabelSelector: "job-name=" + pod.Name})
		if err != nil || len(list.Items) == 0 {
			return fmt.Errorf("none, %w", err)
		}
		made = &list.Items[0]
		return nil
	})
	return made
}

// TestSidecarsOfAJobStartBeforeAndStopAfterIt, each when the one before it has started, and the last first.
func TestSidecarsOfAJobStartBeforeAndStopAfterIt(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.job(k.pod("batch", `touch /marks/main-up; sleep 2; touch /marks/main-end`, restart(v1.RestartPolicyNever), grace(30),
		sidecar("one", serves("one", "sleep 2", "true"), startedBy("test -e /marks/one-ready")),
		initContainer("between", `touch /marks/between; sleep 1; touch /marks/between-end`),
		sidecar("two", serves("two", "true", "sleep 1"))))
	pod = k.awaitPhase(pod, v1.PodSucceeded)
	k.kubectl("wait", "--for=condition=Complete", "job/batch", "--timeout=90s")
	k.requireOrder("one-up", "one-ready", "between", "between-end", "two-up", "main-up", "main-end", "two-term", "two-end", "one-term", "one-end")
	t.Logf("two was told to stop %v after main had ended, one %v after two had", k.marked("two-term").Sub(k.marked("main-end")), k.marked("one-term").Sub(k.marked("two-end")))
	for _, c := range pod.Status.InitContainerStatuses {
		if c.State.Terminated == nil || c.State.Terminated.ExitCode != 0 || c.RestartCount != 0 {
			t.Errorf("container %s: %+v", c.Name, c)
		}
	}
}

// TestSidecarThatEndsIsStartedAgain: its status goes back from terminated to running, and main is left alone.
func TestSidecarThatEndsIsStartedAgain(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.job(k.pod("restless", `until [ $(cat /marks/starts | wc -l) -ge 3 ]; do sleep 0.2; done; sleep 2; touch /marks/main-end`, restart(v1.RestartPolicyNever), sidecar("side", `echo x >> /marks/starts; sleep 1`)))
	w, err := k.client().CoreV1().Pods(k.namespace).Watch(t.Context(), metav1.ListOptions{
		FieldSelector: "metadata.name=" + pod.Name, TimeoutSeconds: new(int64(usual.Seconds())),
	})
	must(t, err)
	defer w.Stop()
	var states []string
	var restarts int32
	for ev := range w.ResultChan() {
		got, ok := ev.Object.(*v1.Pod)
		if !ok || ev.Type == watch.Deleted {
			break
		}
		pod = got
		for _, c := range got.Status.InitContainerStatuses {
			if c.RestartCount < restarts {
				t.Errorf("the restart count fell from %d to %d", restarts, c.RestartCount)
			}
			restarts = c.RestartCount
			state := "waiting"
			switch {
			case c.State.Running != nil:
				state = "running"
			case c.State.Terminated != nil:
				state = "terminated"
			}
			if len(states) == 0 || states[len(states)-1] != state {
				states = append(states, state)
			}
		}
		if got.Status.Phase == v1.PodSucceeded || got.Status.Phase == v1.PodFailed {
			break
		}
	}
	if pod.Status.Phase != v1.PodSucceeded {
		t.Errorf("phase %s", pod.Status.Phase)
	}
	// Started at once after the first end and after ten seconds after the second.
	if starts := k.lines("starts"); starts != 3 || int(restarts) != starts-1 {
		t.Errorf("%d starts, %d restarts are told", starts, restarts)
	}
	// A start after no pause may be told together with the end before it.
	if got := strings.Join(states, " "); strings.Count(got, "running") < 2 {
		t.Errorf("states of the sidecar: %s", got)
	}
	if n := pod.Status.ContainerStatuses[0].RestartCount; n != 0 || k.marked("main-end").IsZero() {
		t.Errorf("main: %+v", pod.Status.ContainerStatuses[0])
	}
}

func TestDeletionStopsSidecarsLastInReverse(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.awaitPodReady(k.create(k.pod("convoy", serves("main", "true", "sleep 1"), grace(120),
		sidecar("one", serves("one", "true", "sleep 1")), sidecar("two", serves("two", "true", "sleep 1")))))
	k.awaitMark("main-ready")
	d := k.watchDeletion(pod, usual)
	k.requireStopped(d)
	k.requireOrder("main-term", "main-end", "two-term", "two-end", "one-term", "one-end")
	if took := d.gone.Sub(d.began); took > time.Minute { // half the grace period: nobody waited for its end
		t.Errorf("the deletion took %v", took)
	}
	k.awaitCollected(pod)
}

func TestSidecarIsToldToStopAlthoughTheNextNeverStarted(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.create(k.pod("stuck", `touch /marks/main`, grace(120), sidecar("one", serves("one", "true", "true"), startedBy("false")),
		sidecar("two", `touch /marks/two`)))
	k.awaitMark("one-ready")
	d := k.watchDeletion(pod, usual)
	k.requireStopped(d)
	k.requireOrder("one-term", "one-end")
	if took := d.gone.Sub(d.began); took > time.Minute { // half the grace period: nobody waited for its end
		t.Errorf("the deletion took %v", took)
	}
	for _, name := range []string{"two", "main"} {
		if !k.marked(name).IsZero() {
			t.Errorf("%s was started", name)
		}
	}
	k.awaitCollected(pod)
}
