// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestObjectIsDeletedLast(t *testing.T) {
	pod := podNamed("web")
	pod.Status = inPhase(v1.PodRunning)
	run(t, newFakeAPI(pod), func(t *testing.T, b *bench) {
		b.runs.Store(true)
		b.Set(pod, inPhase(v1.PodRunning))
		gone := b.api.put(deleting(pod))
		b.Observe(gone)
		b.Set(gone, inPhase(v1.PodRunning))
		pass(time.Minute)
		b.Set(gone, inPhase(v1.PodSucceeded))
		pass(time.Minute)
		expectPhase(t, b, "web", v1.PodRunning)

		b.runs.Store(false)
		b.Set(gone, inPhase(v1.PodSucceeded))
		pass(time.Minute)
		expectPhase(t, b, "web", v1.PodSucceeded)

		b.api.taken()
		b.Finish(gone)
		pass(0)
		expectCalls(t, b, "delete web")
		if _, ok := b.Get(pod.UID); ok {
			t.Error("the status is still there after the object was deleted")
		}
		pass(time.Minute)
		expectCalls(t, b)
	})
}

func TestObjectThatIsMadeWhileTheAPISaysThatItIsNotThereGetsItsStatus(t *testing.T) {
	pod := podNamed("web")
	run(t, newFakeAPI(), func(t *testing.T, b *bench) {
		held := make(chan struct{})
		b.api.failNext("get web", fail{held: held})
		b.Set(pod, inPhase(v1.PodRunning))
		pass(0)
		b.Observe(b.api.put(pod))
		close(held)
		pass(0)
		expectPhase(t, b, "web", v1.PodRunning)
	})
}

func TestFinishWritesAndDeletesInOneGo(t *testing.T) {
	pod := deleting(podNamed("web"))
	run(t, newFakeAPI(pod), func(t *testing.T, b *bench) {
		b.Set(pod, inPhase(v1.PodPending))
		b.Finish(pod)
		pass(0)
		calls := b.api.taken()
		if d := cmp.Diff([]string{"get web", "patch web", "delete web"}, calls[max(0, len(calls)-3):]); d != "" {
			t.Errorf("calls -want +got:\n%s", d)
		}
	})
}

func TestNothingIsDeletedBeforeTheTerminalStatusIsAccepted(t *testing.T) {
	pod := deleting(podNamed("web"))
	run(t, newFakeAPI(pod), func(t *testing.T, b *bench) {
		for range 20 {
			b.api.failNext("patch web", fail{})
		}
		b.Finish(pod)
		pass(2 * time.Minute)
		if calls := b.api.taken(); slices.Contains(calls, "delete web") {
			t.Errorf("the object was deleted: %v", calls)
		}
		pass(5 * time.Minute)
		if b.api.read("web") != nil {
			t.Error("the object is still there")
		}
	})
}

func TestNothingIsDeletedWhileAContainerCouldRun(t *testing.T) {
	pod := deleting(podNamed("web"))
	pod.Status = inPhase(v1.PodFailed)
	run(t, newFakeAPI(pod), func(t *testing.T, b *bench) {
		b.runs.Store(true)
		b.Finish(pod)
		pass(time.Minute)
		if b.api.read("web") == nil {
			t.Fatal("the object was deleted although a container could run")
		}
		b.runs.Store(false)
		pass(10 * time.Second)
		if b.api.read("web") != nil {
			t.Error("the object is still there")
		}
	})
}

func TestFinishedPodIsDeletedWhenItsDeletionIsSeen(t *testing.T) {
	pod := podNamed("job")
	run(t, newFakeAPI(pod), func(t *testing.T, b *bench) {
		b.Set(pod, inPhase(v1.PodSucceeded))
		b.Finish(pod)
		pass(time.Minute)
		expectPhase(t, b, "job", v1.PodSucceeded)
		b.api.taken()
		b.Observe(b.api.put(deleting(b.api.read("job"))))
		pass(0)
		expectCalls(t, b, "delete job")
	})
}

func TestDeletionSeenDuringAWriteIsNotForgotten(t *testing.T) {
	pod := podNamed("job")
	run(t, newFakeAPI(pod), func(t *testing.T, b *bench) {
		held := make(chan struct{})
		b.api.failNext("patch job", fail{held: held})
		b.Finish(pod)
		pass(0)
		b.Observe(b.api.put(deleting(b.api.read("job"))))
		b.api.taken()
		close(held)
		pass(0)
		expectCalls(t, b, "delete job")
	})
}

func TestNothingIsDeletedIfTheServerDoesNotTakeThePhase(t *testing.T) {
	pod := deleting(podNamed("web"))
	api := newFakeAPI(pod)
	api.forget = func(s *v1.PodStatus) { s.Phase = v1.PodRunning }
	run(t, api, func(t *testing.T, b *bench) {
		b.Finish(pod)
		pass(time.Minute)
		expectPhase(t, b, "web", v1.PodRunning)
	})
}

func TestFinishedStaysFinished(t *testing.T) {
	pod := podNamed("job")
	run(t, newFakeAPI(pod), func(t *testing.T, b *bench) {
		b.Finish(pod)
		b.Set(pod, v1.PodStatus{Phase: v1.PodFailed, PodIP: "10.0.0.1"})
		pass(time.Minute)
		b.Observe(b.api.put(deleting(b.api.read("job"))))
		pass(0)
		if b.api.read("job") != nil {
			t.Error("the object is still there")
		}
	})
}

func TestEverySetDuringDeletionIsWritten(t *testing.T) {
	pod := deleting(podNamed("web"))
	run(t, newFakeAPI(pod), func(t *testing.T, b *bench) {
		for range 3 {
			b.Observe(b.api.change(t, "web", func(p *v1.Pod) { p.Status.Phase = v1.PodPending }))
			b.Set(pod, inPhase(v1.PodRunning))
			pass(0)
			expectPhase(t, b, "web", v1.PodRunning)
		}
		b.Set(pod, inPhase(v1.PodRunning))
		pass(0)
		expectCalls(t, b, "get web", "patch web", "patch web", "patch web")
	})
}

func TestStatusSetAnewAfterRetainIsNotLostWithTheOldWrite(t *testing.T) {
	pod := deleting(podNamed("web"))
	run(t, newFakeAPI(pod), func(t *testing.T, b *bench) {
		held := make(chan struct{})
		b.api.failNext("delete web", fail{held: held})
		b.Finish(pod)
		pass(0)
		b.Retain(map[types.UID]struct{}{})
		b.Set(pod, inPhase(v1.PodFailed))
		close(held)
		pass(0)
		if _, ok := b.Get(pod.UID); !ok {
			t.Error("the new status is gone")
		}
	})
}

func TestLostAnswerOfADeleteIsNoTrouble(t *testing.T) {
	pod := deleting(podNamed("web"))
	run(t, newFakeAPI(pod), func(t *testing.T, b *bench) {
		b.api.failNext("delete web", fail{after: true})
		b.Finish(pod)
		pass(time.Minute)
		expectCalls(t, b, "get web", "patch web", "delete web", "get web")
	})
}

func TestObjectWithFinalizersIsDeletedOnce(t *testing.T) {
	pod := deleting(podNamed("web"))
	pod.Finalizers = []string{"example.com/wait"}
	run(t, newFakeAPI(pod), func(t *testing.T, b *bench) {
		b.Finish(pod)
		pass(0)
		b.Observe(b.api.put(b.api.read("web")))
		pass(time.Minute)
		expectCalls(t, b, "get web", "patch web", "delete web")
	})
}

func TestPodMadeAgainUnderTheSameNameIsNotTouched(t *testing.T) {
	old, again := deleting(podNamed("web")), podNamed("web")
	again.UID = "uid-new"
	run(t, newFakeAPI(again), func(t *testing.T, b *bench) {
		b.Set(old, inPhase(v1.PodRunning))
		b.Finish(old)
		pass(time.Minute)
		expectCalls(t, b, "get web")
		expectPhase(t, b, "web", v1.PodPending)
	})
}

// swapAPI puts a new pod in the place of the old one between the read and the write.
type swapAPI struct {
	*fakeAPI
	verb string
	pod  *v1.Pod
}

func (s *swapAPI) swap(verb string) {
	if s.verb == verb {
		s.put(s.pod)
	}
}

func (s *swapAPI) PatchPodStatus(
	ctx context.Context, name types.NamespacedName, uid types.UID, version string, patch []byte,
) (*v1.Pod, error) {
	s.swap("patch")
	return s.fakeAPI.PatchPodStatus(ctx, name, uid, version, patch)
}

func (s *swapAPI) DeletePod(ctx context.Context, name types.NamespacedName, uid types.UID) error {
	s.swap("delete")
	return s.fakeAPI.DeletePod(ctx, name, uid)
}

func TestPodMadeAgainDuringAWriteIsNotTouched(t *testing.T) {
	for _, verb := range []string{"patch", "delete"} {
		t.Run(verb, func(t *testing.T) {
			old, again := deleting(podNamed("web")), podNamed("web")
			again.UID = "uid-new"
			api := newFakeAPI(old)
			run(t, api, func(t *testing.T, b *bench) {
				b.sink = &swapAPI{fakeAPI: api, verb: verb, pod: again}
				b.Finish(old)
				pass(time.Minute)
				expectPhase(t, b, "web", v1.PodPending)
				if calls := api.taken(); calls[len(calls)-1] != "get web" {
					t.Errorf("the last call is %q, want the read that finds another pod", calls[len(calls)-1])
				}
			})
		})
	}
}
