// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

// static is a pod that a manifest asks for, in two versions.
func static(uid string) *v1.Pod {
	return testPod(uid, func(p *v1.Pod) {
		p.Name = "web-n"
		p.Annotations = map[string]string{podrules.AnnotationSource: "file"}
	})
}

func TestChangedStaticPodStartsAfterTheOldOneOfItsNameHasStopped(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cri.Behave(fakecri.Selector{UID: "v1"}, fakecri.Behaviour{OnTERM: fakecri.TERM{Ignore: true}})
		w.api.create(static("v1"))
		w.eventually("the first version runs", 30*time.Second, w.running("v1"))
		began := time.Now()
		w.api.delete("v1", 0) // the manifest was replaced
		w.api.create(static("v2"))
		w.eventually("the second version runs", time.Minute, w.running("v2"))
		if took := time.Since(began); took < 30*time.Second {
			t.Errorf("it ran after %s, want it to wait for the whole grace period of the first", took)
		}
	})
}

func TestStaticPodThatComesBackWhileItStopsIsStartedAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.api.create(static("v1"))
		w.eventually("it runs", 30*time.Second, w.running("v1"))
		first, _ := w.cri.Newest("v1", "main")
		w.api.delete("v1", 0) // the manifest was moved away
		w.api.create(static("v1"))
		w.eventually("it runs again", time.Minute, func() bool {
			now, _ := w.cri.Newest("v1", "main")
			return now.ID != first.ID && len(w.cri.Running("v1")) == 1
		})
	})
}

func TestStatusOfAMirrorPodIsNoWish(t *testing.T) {
	inWorld(t, func(w *world) {
		w.api.create(static("v1"))
		w.eventually("it runs", 30*time.Second, w.running("v1"))
		w.api.edit("v1", func(p *v1.Pod) { p.Status.Phase = v1.PodFailed })
		w.api.mu.Lock()
		w.api.publish(PodReconciled, w.api.pods["v1"])
		w.api.mu.Unlock()
		time.Sleep(5 * time.Minute)
		if n := len(w.cri.Running("v1")); n != 1 {
			t.Errorf("%d containers run, want the one that did before", n)
		}
	})
}

func TestStatusOfAStaticPodThatWentAwayIsKeptUntilItHasEnded(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cri.Behave(fakecri.Selector{UID: "v1"}, fakecri.Behaviour{OnTERM: fakecri.TERM{Ignore: true}})
		w.api.create(static("v1"))
		w.eventually("it runs", 30*time.Second, w.running("v1"))
		before, _ := w.engine.Status("v1")
		time.Sleep(time.Minute)
		w.api.edit("v1", func(p *v1.Pod) { p.Status = static("v1").Status }) // a manifest tells nothing of it
		w.api.delete("v1", 0)                                                // the manifest was moved away
		var last v1.PodStatus
		for range 40 {
			time.Sleep(time.Second)
			if st, ok := w.engine.Status("v1"); ok {
				last = st
				if !st.StartTime.Equal(before.StartTime) {
					t.Fatalf("it started at %s, want %s", st.StartTime, before.StartTime)
				}
			}
		}
		if last.Phase != v1.PodFailed || last.ContainerStatuses[0].State.Terminated == nil {
			t.Errorf("it ended as %+v, want Failed with an ended container", last)
		}
		if _, ok := w.engine.Status("v1"); ok {
			t.Error("its status is never forgotten")
		}
	})
}
