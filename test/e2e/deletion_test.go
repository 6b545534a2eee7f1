// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// slack is what the end of a container may come after its budget.
	slack = 2 * time.Second
	// teardown is what may pass between the end of the last container and that of the object: the runtime takes down the
	// pod's network, and the status is written. It is much more than an idle machine needs.
	teardown = 15 * time.Second
)

// deletion is what was seen while a pod was deleted.
type deletion struct {
	began, gone time.Time
	// last is the last version of the pod before its object vanished.
	last *v1.Pod
	// runningAtEnd names the containers that still ran when the object vanished.
	runningAtEnd map[string]string
}

// watchDeletion deletes the pod and watches it until it is gone.
func (k *tester) watchDeletion(pod *v1.Pod, timeout time.Duration) deletion {
	k.Helper()
	seconds := int64(timeout.Seconds())
	w, err := k.client().CoreV1().Pods(k.namespace).Watch(k.Context(), metav1.ListOptions{
		FieldSelector: "metadata.name=" + pod.Name, TimeoutSeconds: &seconds,
	})
	must(k.T, err)
	defer w.Stop()
	d := deletion{began: time.Now()}
	k.remove(pod)
	for ev := range w.ResultChan() {
		got, ok := ev.Object.(*v1.Pod)
		if !ok || got.UID != pod.UID {
			continue
		}
		d.last = got
		if ev.Type == watch.Deleted {
			d.gone = time.Now()
			d.runningAtEnd = k.running(k.T, pod.UID)
			return d
		}
	}
	k.Fatalf("pod %s was not gone after %v; last status %+v", pod.Name, timeout, d.last.Status)
	return d
}

// requireStopped fails if the object vanished before its containers, or without their final states.
func (k *tester) requireStopped(d deletion) {
	k.Helper()
	if len(d.runningAtEnd) > 0 {
		k.Errorf("the object vanished while containers ran: %v", d.runningAtEnd)
	}
	for _, c := range append(d.last.Status.InitContainerStatuses, d.last.Status.ContainerStatuses...) {
		if c.State.Running != nil {
			k.Errorf("the last status says that container %s runs", c.Name)
		}
	}
}

// TestDeletionKeepsOneBudgetForHookTermAndKill: the main container ignores SIGTERM, so it is killed when the grace period
// ends, which began with the hook. Like every test that measures seconds it has the machine to itself.
func TestDeletionKeepsOneBudgetForHookTermAndKill(t *testing.T) {
	k := on(t, require(t).calm)
	const budget = 10 * time.Second
	pod := k.awaitPodReady(k.create(k.pod("stubborn", `trap "touch /marks/term" TERM; touch /marks/up; sleep 1d & while :; do wait; done`,
		grace(10), preStop(`touch /marks/hook-began; sleep 3; touch /marks/hook-ended`))))
	k.awaitMark("up")
	d := k.watchDeletion(pod, usual)
	k.requireStopped(d)

	began, ended, term := k.marked("hook-began"), k.marked("hook-ended"), k.marked("term")
	if began.IsZero() || ended.IsZero() || term.IsZero() {
		t.Fatalf("hook %v to %v, SIGTERM %v: something did not happen", began, ended, term)
	}
	if hook := ended.Sub(began); hook < 3*time.Second || hook > 3*time.Second+slack {
		t.Errorf("the hook took %v", hook)
	}
	if term.Before(ended) {
		t.Errorf("SIGTERM %v before the hook had ended", ended.Sub(term))
	}
	state := d.last.Status.ContainerStatuses[0].State.Terminated
	if state == nil || state.ExitCode != 137 {
		t.Fatalf("the container ended as %+v, want exit code 137", state)
	}
	// The API has whole seconds.
	if took := state.FinishedAt.Sub(d.began); took < budget-2*time.Second || took > budget+slack {
		t.Errorf("the container was killed after %v, want %v (+%v)", took, budget, slack)
	}
	if took := d.gone.Sub(state.FinishedAt.Time); took > teardown {
		t.Errorf("the object was there for %v after the container had ended", took)
	}
	k.awaitEvent(pod, "Killing", "Stopping container main")
	k.awaitCollected(pod)
}

// TestDeletionDuringInitIsAsCareful: an init container that cleans up when it is told to stop.
func TestDeletionDuringInitIsAsCareful(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.create(k.pod("early", `touch /marks/main`, grace(15),
		initContainer("prepare", `trap "sleep 3; touch /marks/cleaned; exit 0" TERM; touch /marks/up; sleep 1d & while :; do wait; done`)))
	k.awaitMark("up")
	d := k.watchDeletion(pod, usual)
	k.requireStopped(d)
	if k.marked("cleaned").IsZero() {
		t.Error("the init container was not allowed to end by itself")
	}
	if took := d.gone.Sub(d.began); took < 3*time.Second || took > 3*time.Second+slack+teardown {
		t.Errorf("the deletion took %v", took)
	}
	if !k.marked("main").IsZero() {
		t.Error("the main container was started by the end of an init container that was told to stop")
	}
	k.awaitCollected(pod)
}

// TestShorterGraceOfASecondDeletionCounts: a user loses patience. It has the machine to itself.
func TestShorterGraceOfASecondDeletionCounts(t *testing.T) {
	k := on(t, require(t).calm)
	pod := k.awaitPodReady(k.create(k.pod("patience", `trap "" TERM; touch /marks/up; sleep 1d & while :; do wait; done`, grace(300))))
	k.awaitMark("up")
	k.remove(pod)
	k.await(pod, usual, "is being deleted", func(p *v1.Pod) error {
		if p.DeletionTimestamp == nil {
			return errNotYet
		}
		return nil
	})
	time.Sleep(2 * time.Second) // into the grace period
	three := int64(3)
	begin := time.Now()
	must(t, k.client().CoreV1().Pods(k.namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &three}))
	k.awaitGone(pod, usual)
	if took := time.Since(begin); took > 3*time.Second+slack+teardown {
		t.Errorf("the pod was gone %v after the grace period was shortened to 3 s", took)
	}
}

// TestNaturalExitRunsNoHook: preStop is for containers that are stopped.
func TestNaturalExitRunsNoHook(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.awaitPhase(k.create(k.pod("natural", `sleep 1`, restart(v1.RestartPolicyNever), preStop(`touch /marks/hook`))), v1.PodSucceeded)
	k.remove(pod)
	k.awaitGone(pod, usual)
	if !k.marked("hook").IsZero() {
		t.Error("the hook ran for a container that had ended by itself")
	}
	k.awaitCollected(pod)
}

// TestForceDeletedPodAndItsSuccessorOfTheSameName: the old pod's containers are stopped although its object is gone, and the
// new pod is not taken for the old one.
func TestForceDeletedPodAndItsSuccessorOfTheSameName(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	old := k.awaitPodReady(k.create(k.pod("same", `trap "sleep 1; exit 0" TERM; sleep 1d & while :; do wait; done`, grace(20))))
	k.forceRemove(old)
	k.awaitGone(old, usual)
	successor := k.awaitPodReady(k.create(k.pod("same", `exec sleep 1d`)))
	k.awaitCollected(old)
	k.requireUntouched(successor)
}

// TestSuccessorOfTheSameNameAfterADeletion is what a StatefulSet does.
func TestSuccessorOfTheSameNameAfterADeletion(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	old := k.awaitPodReady(k.create(k.pod("same", `trap "sleep 3; exit 0" TERM; sleep 1d & while :; do wait; done`, grace(20))))
	k.remove(old)
	k.awaitGone(old, usual)
	successor := k.awaitPodReady(k.create(k.pod("same", `exec sleep 1d`)))
	k.awaitCollected(old)
	k.requireUntouched(successor)
}

// requireUntouched fails if the pod is not running its first containers.
func (k *tester) requireUntouched(pod *v1.Pod) {
	k.Helper()
	got, err := k.get(pod)
	must(k.T, err)
	if err := ready(got); err != nil {
		k.Errorf("pod %s: %v", pod.Name, err)
	}
	for _, c := range got.Status.ContainerStatuses {
		if c.RestartCount != 0 {
			k.Errorf("container %s of pod %s was restarted %d times", c.Name, pod.Name, c.RestartCount)
		}
	}
	if records := k.containers(k.T, pod.UID); len(records) != len(got.Status.ContainerStatuses)+len(got.Status.InitContainerStatuses) {
		k.Errorf("pod %s has %d container records", pod.Name, len(records))
	}
}
