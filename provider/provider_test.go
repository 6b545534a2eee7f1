// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	vkerrdefs "github.com/virtual-kubelet/virtual-kubelet/errdefs"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/lifecycle"
)

// scriptedSource is a pod source that says what the test sends.
type scriptedSource struct{ events chan lifecycle.PodEvent }

func (s *scriptedSource) Run(ctx context.Context)           { <-ctx.Done() }
func (s *scriptedSource) Events() <-chan lifecycle.PodEvent { return s.events }
func (s *scriptedSource) Live(_ context.Context, namespace, name string) (*v1.Pod, error) {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "live"}}, nil
}

func newPod(name string, uid types.UID) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: uid}}
}

func deleted(pod *v1.Pod) *v1.Pod {
	pod.DeletionTimestamp = &metav1.Time{}
	return pod
}

func TestProviderPassesOnWhatTheSourceSaysInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &scriptedSource{events: make(chan lifecycle.PodEvent)}
		p := New(source)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); p.Run(ctx) }()
		defer func() { cancel(); <-done }()

		for _, event := range []lifecycle.PodEvent{
			{Type: lifecycle.PodAdded, Pod: newPod("a", "1")},
			{Type: lifecycle.SourceSynced},
			{Type: lifecycle.PodUpdated, Pod: newPod("a", "1")},
			{Type: lifecycle.PodUpdated, Pod: deleted(newPod("a", "1"))},
			{Type: lifecycle.PodReconciled, Pod: deleted(newPod("a", "1"))},
			// The object of a pod that was deleted in order has a deletion timestamp; it is gone nevertheless.
			{Type: lifecycle.PodRemoved, Pod: deleted(newPod("a", "1"))},
		} {
			source.events <- event
			if d := cmp.Diff(event, <-p.Events()); d != "" {
				t.Errorf("event (-want +got):\n%s", d)
			}
		}
	})
}

func TestProviderStopsWhileTheEngineTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &scriptedSource{events: make(chan lifecycle.PodEvent)}
		p := New(source)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); p.Run(ctx) }()
		source.events <- lifecycle.PodEvent{Type: lifecycle.PodAdded, Pod: newPod("a", "1")}
		synctest.Wait()
		cancel()
		<-done
	})
}

func TestDeletePodTellsADeletionAskedForFromAnObjectThatIsGone(t *testing.T) {
	for name, tc := range map[string]struct {
		pod  *v1.Pod
		want lifecycle.PodEventType
	}{
		"asked for": {deleted(newPod("a", "1")), lifecycle.PodUpdated},
		"gone":      {newPod("a", "1"), lifecycle.PodRemoved},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := New(&scriptedSource{})
				done := make(chan error, 1)
				go func() { done <- p.DeletePod(t.Context(), tc.pod) }()
				if got := <-p.Events(); got.Type != tc.want || got.Pod != tc.pod {
					t.Errorf("event is %s, want %s", got.Type, tc.want)
				}
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// engineView knows the new one of two pods of one name, and a status of each UID.
type engineView struct{ pod *v1.Pod }

func (v engineView) Pods() []*v1.Pod { return []*v1.Pod{v.pod, newPod("web-0", "old")} }

func (v engineView) Pod(namespace, name string) (*v1.Pod, bool) {
	return v.pod, namespace == v.pod.Namespace && name == v.pod.Name
}

func (engineView) Status(uid types.UID) (v1.PodStatus, bool) {
	return v1.PodStatus{Phase: v1.PodRunning, Message: string(uid)}, uid != "new"
}

func TestGetPodAnswersForTheUIDThatHasTheName(t *testing.T) {
	p := New(&scriptedSource{})
	if _, err := p.GetPod(t.Context(), "shop", "web-0"); !vkerrdefs.IsNotFound(err) {
		t.Errorf("before the engine is known: %v", err)
	}
	original := newPod("web-0", "new")
	original.Status.Phase = v1.PodPending
	p.SetView(engineView{original})

	pod, err := p.GetPod(t.Context(), "shop", "web-0")
	if err != nil {
		t.Fatal(err)
	}
	if pod.UID != "new" || pod.Status.Phase != v1.PodPending {
		t.Errorf("got pod %s with phase %s; the status of the old pod of that name is not its", pod.UID, pod.Status.Phase)
	}
	if pod == original {
		t.Error("the shared pod was given away")
	}
	if _, err := p.GetPodStatus(t.Context(), "shop", "other"); !vkerrdefs.IsNotFound(err) {
		t.Errorf("unknown pod: %v", err)
	}
}

func TestGetPodsHasTheNewestStatusOfEachUID(t *testing.T) {
	p := New(&scriptedSource{})
	p.SetView(engineView{newPod("web-0", "new")})
	pods, err := p.GetPods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[types.UID]v1.PodPhase{}
	for _, pod := range pods {
		got[pod.UID] = pod.Status.Phase
	}
	if d := cmp.Diff(map[types.UID]v1.PodPhase{"new": "", "old": v1.PodRunning}, got); d != "" {
		t.Errorf("phases (-want +got):\n%s", d)
	}
}
