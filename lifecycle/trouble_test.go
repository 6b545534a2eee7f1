// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

func TestUnreadableTerminationMessageDoesNotKeepAPodRunning(t *testing.T) {
	inWorld(t, func(w *world) {
		w.guardI1()
		w.host.setTailErr(context.DeadlineExceeded)
		w.cri.Behave(fakecri.Selector{Container: "side"}, fakecri.Behaviour{Exits: true, ExitAfter: time.Second})
		w.api.create(testPod("a", func(p *v1.Pod) {
			p.Spec.RestartPolicy = v1.RestartPolicyNever
			p.Spec.Containers = append(p.Spec.Containers, testContainer("side"))
		}))
		w.eventually("side ended", 10*time.Second, func() bool {
			side, made := w.cri.Newest("a", "side")
			return made && cri.StateOf(side.State) == cri.ContainerExited
		})
		w.api.delete("a", 10)
		w.eventually("stopped", 15*time.Second, func() bool { return len(w.cri.Running("a")) == 0 })
		w.host.setTailErr(errdefs.ErrNotFound)
		w.eventually("gone", 10*time.Second, w.gone("a"))
	})
}

func TestRunningPodIsNotRefusedThoughItsStatusWasNeverWritten(t *testing.T) {
	inWorld(t, func(w *world) {
		w.api.create(testPod("a"))
		w.eventually("running", 10*time.Second, w.running("a"))
		w.stop()
		w.api.edit("a", func(p *v1.Pod) {
			p.Status = v1.PodStatus{Phase: v1.PodPending}
			p.Spec.HostPID = true
		})
		w.start()
		time.Sleep(time.Minute)
		if p := w.api.get("a"); p.Status.Phase == v1.PodFailed || len(w.cri.Running("a")) != 1 {
			t.Errorf("phase %s (%s) while %v runs", p.Status.Phase, p.Status.Message, w.cri.Running("a"))
		}
	})
}

func TestPodsAreShownButNotDecidedAboutBeforeTheHostAnswers(t *testing.T) {
	inWorld(t, func(w *world) {
		w.stop()
		w.cri.Cut()
		w.maxPods = 2
		w.start()
		for _, uid := range []string{"a", "b", "c", "d"} {
			w.api.create(testPod(uid))
			time.Sleep(time.Second)
		}
		w.api.delete("a", 0)
		time.Sleep(10 * time.Minute)
		for _, uid := range []types.UID{"b", "c", "d"} {
			if p := w.api.get(uid); p.Status.Phase != v1.PodPending {
				t.Errorf("pod %s is %s before the host answered", uid, p.Status.Phase)
			}
		}
		if n := len(w.engine.Pods()); n != 3 {
			t.Errorf("%d pods are shown, want 3", n)
		}
		w.cri.Mend()
		w.eventually("b runs", 30*time.Second, w.running("b"))
		w.eventually("c runs", 30*time.Second, w.running("c"))
		w.eventually("d is refused", 30*time.Second, func() bool { return w.api.get("d").Status.Reason == "OutOfpods" })
		if n := len(w.cri.Calls("RunPodSandbox")); n != 2 {
			t.Errorf("%d sandboxes were made, want 2", n)
		}
	})
}

func TestPodThatAnotherWriterFailedIsStopped(t *testing.T) {
	inWorld(t, func(w *world) {
		w.api.create(testPod("a"))
		w.eventually("running", 10*time.Second, w.running("a"))
		patch := []byte(`{"phase":"Failed","reason":"NodeLost"}`)
		if _, err := w.api.PatchPodStatus(t.Context(), types.NamespacedName{Namespace: "ns", Name: "pod-a"}, "a", "", patch); err != nil {
			t.Fatal(err)
		}
		w.eventually("stopped", 40*time.Second, func() bool { return len(w.cri.Running("a")) == 0 })
		time.Sleep(time.Minute)
		if s := w.api.get("a").Status; s.Phase != v1.PodFailed || s.Reason != "NodeLost" {
			t.Errorf("phase %s, reason %s, want what the other writer said", s.Phase, s.Reason)
		}
	})
}

func TestMessagesOfRemovedContainersAreForgotten(t *testing.T) {
	m := newMessages(newFakeHost())
	pod := testPod("a")
	ended := func(ids ...string) *cri.PodStatus {
		rs := &cri.PodStatus{UID: pod.UID}
		for _, id := range ids {
			rs.Containers = append(rs.Containers, cri.ContainerStatus{ID: id, Name: "main", State: cri.ContainerExited})
		}
		return rs
	}
	for _, rs := range []*cri.PodStatus{ended("1"), ended("2", "1"), ended("3", "2")} {
		if err := m.collect(t.Context(), pod, rs); err != nil {
			t.Fatal(err)
		}
	}
	if m.has(pod.UID, "1") || !m.has(pod.UID, "2") || !m.has(pod.UID, "3") {
		t.Errorf("kept %v, want those of the containers that are still there", m.byID[pod.UID])
	}
}
