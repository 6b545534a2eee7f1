// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsource

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clientgotesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/lifecycle"
)

func TestMain(m *testing.M) {
	// client-go's own handler waits by the real clock, which ends in a far future inside a bubble of synctest.
	utilruntime.ErrorHandlers = nil
	m.Run()
}

// api is a scripted API server: it answers a list with what is set, and a watch with what is sent.
type api struct {
	mu      sync.Mutex
	pods    []*v1.Pod
	listErr error
	watcher *watch.FakeWatcher
}

// IsWatchListSemanticsUnSupported makes the reflector list, then watch.
func (*api) IsWatchListSemanticsUnSupported() bool { return true }

func (a *api) list(context.Context, metav1.ListOptions) (runtime.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.listErr != nil {
		return nil, a.listErr
	}
	list := &v1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "10"}}
	for _, p := range a.pods {
		list.Items = append(list.Items, *p.DeepCopy())
	}
	return list, nil
}

func (a *api) watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.watcher = watch.NewFakeWithChanSize(100, false)
	return a.watcher, nil
}

// set decides what the next list answers.
func (a *api) set(err error, pods ...*v1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pods, a.listErr = pods, err
}

// send puts one event on the running watch.
func (a *api) send(t watch.EventType, pod *v1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.watcher.Action(t, pod)
}

// cut ends the running watch and makes the reflector list anew, as after a gap that the API cannot fill.
func (a *api) cut() {
	a.mu.Lock()
	defer a.mu.Unlock()
	status := apierrors.NewResourceExpired("too old").Status()
	a.watcher.Action(watch.Error, &status)
	a.watcher.Stop()
}

// start runs a source on the scripted API in the bubble of the test and stops it at the end. live is what the API shows of
// single pods.
func start(t *testing.T, a *api, live ...runtime.Object) *Source {
	t.Helper()
	s := newStore()
	source := New(Options{Client: fake.NewClientset(live...), Node: "n", Clock: clock.RealClock{}})
	source.store = s
	source.reflector = cache.NewReflectorWithOptions(struct {
		*cache.ListWatch
		*api
	}{&cache.ListWatch{ListWithContextFunc: a.list, WatchFuncWithContext: a.watch}, a}, &v1.Pod{}, s, cache.ReflectorOptions{Name: "test"})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); source.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return source
}

// drain takes every event that comes without a further change from outside.
func drain(s *Source) []string {
	var events []lifecycle.PodEvent
	for {
		synctest.Wait()
		select {
		case e := <-s.Events():
			events = append(events, e)
		default:
			return names(events)
		}
	}
}

func expect(t *testing.T, what string, s *Source, want ...string) {
	t.Helper()
	if d := cmp.Diff(want, drain(s)); d != "" {
		t.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

func TestSourceIsNotSyncedWhileListsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{}
		a.set(&url.Error{Op: "Get", Err: syscall.ECONNREFUSED})
		s := start(t, a)
		expect(t, "API away", s)
		time.Sleep(5 * time.Minute)
		expect(t, "API still away", s)

		a.set(nil, newPod("a", "u1", 0))
		time.Sleep(time.Minute)
		expect(t, "API back", s, "added u1", "synced")
	})
}

func TestSourceIsSyncedByAnEmptyList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &api{})
		expect(t, "empty list", s, "synced")
	})
}

func TestSourceFailedRelistRemovesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{}
		a.set(nil, newPod("a", "u1", 0))
		s := start(t, a)
		expect(t, "first list", s, "added u1", "synced")

		a.set(apierrors.NewServiceUnavailable("etcd is away"))
		a.cut()
		time.Sleep(10 * time.Minute)
		expect(t, "lists fail", s)

		a.set(nil)
		time.Sleep(time.Minute)
		expect(t, "a list succeeded", s, "removed u1")
	})
}

func TestSourceAsksForEachPodBeforeAListRemovesSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{}
		a.set(nil, newPod("a", "u1", 2*time.Hour), newPod("b", "u2", time.Hour), newPod("c", "u3", 0))
		s := start(t, a, newPod("a", "u1", 0), newPod("b", "u9", 0)) // b was made anew, c is gone
		expect(t, "first list", s, "added u1", "added u2", "added u3", "synced")

		a.set(nil) // wrong, but complete
		a.cut()
		time.Sleep(time.Minute)
		got := map[string]bool{}
		for _, e := range drain(s) {
			got[e] = true
		}
		if d := cmp.Diff(map[string]bool{"removed u2": true, "removed u3": true}, got); d != "" {
			t.Errorf("after an empty list (-want +got):\n%s", d)
		}

		a.set(nil, newPod("a", "u1", 2*time.Hour))
		a.cut()
		time.Sleep(time.Minute)
		expect(t, "after a right list", s)
		a.send(watch.Deleted, newPod("a", "u1", 2*time.Hour))
		expect(t, "after a deletion", s, "removed u1")
	})
}

func TestSourceKeepsDoubtfulPodsWhileTheAPIIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var answers atomic.Bool
		client.PrependReactor("list", "pods", func(clientgotesting.Action) (bool, runtime.Object, error) {
			if !answers.Load() {
				return true, nil, apierrors.NewServiceUnavailable("etcd is away")
			}
			return false, nil, nil
		})
		s := New(Options{Client: client, Node: "n", Clock: clock.RealClock{}})
		for _, list := range [][]any{{newPod("a", "u1", time.Hour), newPod("b", "u2", 0)}, {}} {
			if err := s.store.Replace(list, "1"); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.confirm(ctx)
		time.Sleep(time.Hour)
		synctest.Wait()
		if pods, _ := s.store.read(); len(pods) != 2 {
			t.Errorf("%d pods, want both while nobody can confirm their end", len(pods))
		}
		answers.Store(true)
		time.Sleep(confirmPeriod)
		synctest.Wait()
		if pods, _ := s.store.read(); len(pods) != 0 {
			t.Errorf("pods %v, want none", pods)
		}
	})
}

func TestSourceComparesAcrossAGapInTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{}
		a.set(nil, newPod("web-0", "u1", time.Hour), newPod("kept", "u2", time.Hour), newPod("label", "u3", time.Hour))
		s := start(t, a)
		expect(t, "first list", s, "added u1", "added u2", "added u3", "synced")

		relabelled := newPod("label", "u3", time.Hour, func(p *v1.Pod) { p.Labels = nil })
		a.set(nil, newPod("web-0", "u9", 0), newPod("kept", "u2", time.Hour), relabelled)
		a.cut()
		time.Sleep(time.Minute)
		expect(t, "after the gap", s, "removed u1", "added u9", "updated u3")
	})
}

func TestSourceFollowsTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{}
		s := start(t, a)
		expect(t, "first list", s, "synced")

		a.send(watch.Added, newPod("a", "u1", 0))
		expect(t, "add", s, "added u1")
		a.send(watch.Modified, newPod("a", "u1", 0, func(p *v1.Pod) { p.Status.Phase = v1.PodRunning }))
		expect(t, "status", s, "reconciled u1")
		deleting := newPod("a", "u1", 0, func(p *v1.Pod) {
			p.Status.Phase = v1.PodRunning
			p.DeletionTimestamp = &metav1.Time{Time: epoch}
		})
		a.send(watch.Modified, deleting)
		expect(t, "delete asked for", s, "updated u1")
		a.send(watch.Deleted, deleting.DeepCopy())
		expect(t, "object gone", s, "removed u1")
	})
}

func TestSourceLateDeletionOfTheOldPodKeepsTheNewOneOfItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{}
		a.set(nil, newPod("web-0", "old", time.Hour))
		s := start(t, a)
		expect(t, "first list", s, "added old", "synced")

		a.send(watch.Added, newPod("web-0", "new", 0))
		a.send(watch.Deleted, newPod("web-0", "old", time.Hour))
		got := drain(s)
		// The reader may see the two events together or one by one; the new pod must be added once and stay.
		want := map[string]int{"added new": 1, "removed old": 1}
		count := map[string]int{}
		for _, e := range got {
			count[e]++
		}
		if d := cmp.Diff(want, count); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
	})
}

func TestSourceCoalescesForASlowConsumerWithoutLosingTheLastState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{}
		s := start(t, a)
		expect(t, "first list", s, "synced")

		// Nobody reads: the first change is stuck in delivery, what follows collects in the snapshot.
		a.send(watch.Added, newPod("stuck", "u0", 0))
		synctest.Wait()
		a.send(watch.Added, newPod("a", "u1", 0))
		for range 50 {
			a.send(watch.Modified, newPod("a", "u1", 0, func(p *v1.Pod) { p.Labels = map[string]string{"app": "x"} }))
		}
		a.send(watch.Modified, newPod("a", "u1", 0, func(p *v1.Pod) { p.Labels = map[string]string{"app": "last"} }))
		a.send(watch.Added, newPod("short-lived", "u2", 0))
		a.send(watch.Deleted, newPod("short-lived", "u2", 0))
		synctest.Wait()

		if e := <-s.Events(); e.Pod.UID != "u0" {
			t.Fatalf("first event is of %s", e.Pod.UID)
		}
		e := <-s.Events()
		if e.Type != lifecycle.PodAdded || e.Pod.UID != "u1" || e.Pod.Labels["app"] != "last" {
			t.Errorf("got %s %s with labels %v, want one addition with the last labels", e.Type, e.Pod.UID, e.Pod.Labels)
		}
		expect(t, "nothing more", s)
	})
}

func TestStoreTakesTombstonesAndRefusesWhatIsNoPod(t *testing.T) {
	s := newStore()
	if err := s.Add(newPod("a", "u1", 0)); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(cache.DeletedFinalStateUnknown{Key: "default/a", Obj: newPod("a", "u1", 0)}); err != nil {
		t.Fatal(err)
	}
	if pods, synced := s.read(); len(pods) != 0 || synced {
		t.Errorf("pods = %v, synced = %v after a tombstone", pods, synced)
	}
	if err := s.Add(&v1.Node{}); err == nil {
		t.Error("a node was taken for a pod")
	}
	if err := s.Replace([]any{newPod("a", "", 0)}, "1"); err == nil {
		t.Error("a list with a pod without UID was taken")
	}
	if _, synced := s.read(); synced {
		t.Error("a broken list made the source synced")
	}
}

func TestLiveTellsAbsenceFromFailure(t *testing.T) {
	bound := newPod("a", "u1", 0)
	elsewhere := newPod("b", "u2", 0, func(p *v1.Pod) { p.Spec.NodeName = "other" })
	pods := schema.GroupResource{Resource: "pods"}
	for name, tc := range map[string]struct {
		pod  string
		err  error
		want func(error) bool
	}{
		"there":          {pod: "a", want: func(err error) bool { return err == nil }},
		"gone":           {pod: "c", want: errdefs.IsNotFound},
		"bound to other": {pod: "b", want: errdefs.IsNotFound},
		"API is away":    {pod: "a", err: &url.Error{Op: "Get", Err: syscall.ECONNREFUSED}, want: errdefs.IsUnavailable},
		"refused":        {pod: "a", err: apierrors.NewForbidden(pods, "a", errors.New("no")), want: errdefs.IsPermissionDenied},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(bound.DeepCopy(), elsewhere.DeepCopy())
			client.PrependReactor("list", "pods", func(action clientgotesting.Action) (bool, runtime.Object, error) {
				want := "metadata.name=" + tc.pod + ",spec.nodeName=n"
				if list, ok := action.(clientgotesting.ListAction); !ok || list.GetListRestrictions().Fields.String() != want {
					t.Errorf("action is %v, want a list with the field selector %q", action, want)
				}
				return tc.err != nil, nil, tc.err
			})
			pod, err := New(Options{Client: client, Node: "n", Clock: clock.RealClock{}}).Live(t.Context(), "default", tc.pod)
			if !tc.want(err) {
				t.Fatalf("error = %v", err)
			}
			if err == nil && pod.UID != "u1" {
				t.Errorf("got pod %s", pod.UID)
			}
		})
	}
}
