// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
)

func TestWhatIsKnownIsNotRead(t *testing.T) {
	pod := podNamed("web")
	run(t, newFakeAPI(pod), func(t *testing.T, b *bench) {
		known := b.api.read("web")
		b.Set(known, v1.PodStatus{Phase: v1.PodPending, PodIP: "10.0.0.1"})
		pass(0)
		b.Set(known, v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.0.0.1"})
		pass(0)
		b.Observe(b.api.put(deleting(b.api.read("web"))))
		b.Finish(deleting(known))
		pass(0)
		expectCalls(t, b, "patch web", "patch web", "patch web", "delete web")
		if b.api.read("web") != nil {
			t.Error("the object is still there")
		}
	})
}

func TestWriteFromAnOutdatedCopyIsMadeAnewFromTheNewest(t *testing.T) {
	for desc, tt := range map[string]struct {
		interfere func(*v1.Pod)
		phase     v1.PodPhase
	}{
		"a condition of another writer stays": {
			func(p *v1.Pod) {
				p.Status.Conditions = append(p.Status.Conditions, cond("example.com/x", v1.ConditionTrue, "", then))
			}, v1.PodRunning,
		},
		"a terminal phase of another writer is final": {
			func(p *v1.Pod) {
				p.Status.Phase = v1.PodFailed
				p.Status.Conditions = append(p.Status.Conditions, cond("example.com/x", v1.ConditionTrue, "", then))
			}, v1.PodFailed,
		},
	} {
		t.Run(desc, func(t *testing.T) {
			run(t, newFakeAPI(podNamed("web")), func(t *testing.T, b *bench) {
				known := b.api.read("web")
				b.api.change(t, "web", tt.interfere)
				b.Set(known, v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.0.0.1"})
				pass(0)
				expectCalls(t, b, "patch web", "get web", "patch web")
				got := b.api.read("web").Status
				if got.Phase != tt.phase || got.PodIP != "10.0.0.1" || condition(got.Conditions, "example.com/x") == nil {
					t.Errorf("the API has %+v, want phase %s, the address and the condition of the other writer", got, tt.phase)
				}
			})
		})
	}
}

func TestNextWriteIsMadeFromTheAnswerOfTheLast(t *testing.T) {
	run(t, newFakeAPI(podNamed("web")), func(t *testing.T, b *bench) {
		known := b.api.read("web")
		b.api.change(t, "web", func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} })
		b.Set(known, inPhase(v1.PodRunning))
		pass(0)
		b.api.taken()
		b.Observe(known) // late
		b.Set(known, v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.0.0.1"})
		pass(0)
		expectCalls(t, b, "patch web")
	})
}

func TestKnownPodThatIsGoneOrAnotherIsNotTouched(t *testing.T) {
	again := podNamed("web")
	again.UID = "uid-new"
	for desc, tt := range map[string]struct {
		now   []*v1.Pod
		fails []fail
		want  []string
	}{
		"gone":                           {nil, nil, []string{"patch web"}},
		"another":                        {[]*v1.Pod{again}, nil, []string{"patch web", "get web"}},
		"another that is none of a node": {[]*v1.Pod{again}, []fail{{err: errdefs.ErrPermissionDenied}}, []string{"patch web", "get web"}},
	} {
		t.Run(desc, func(t *testing.T) {
			old := podNamed("web")
			old.ResourceVersion = "1"
			run(t, newFakeAPI(tt.now...), func(t *testing.T, b *bench) {
				b.api.failNext("patch web", tt.fails...)
				b.Set(old, inPhase(v1.PodRunning))
				pass(time.Minute)
				expectCalls(t, b, tt.want...)
				if len(tt.now) > 0 {
					expectPhase(t, b, "web", v1.PodPending)
				}
			})
		})
	}
}

func TestAfterAFailureThePodIsRead(t *testing.T) {
	run(t, newFakeAPI(podNamed("web")), func(t *testing.T, b *bench) {
		b.api.failNext("patch web", fail{after: true})
		b.Set(b.api.read("web"), inPhase(v1.PodRunning))
		pass(time.Minute)
		expectCalls(t, b, "patch web", "get web")
	})
}
