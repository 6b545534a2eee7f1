// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package pleg

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

// lists counts the looks at single pods and everything.
func lists(rt *fakecri.Runtime) int { return len(rt.Calls("ListPodSandbox")) }

func TestWhatIsKnownIsNotLookedAtAgain(t *testing.T) {
	watched(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime, w *fakeWatcher) {
		pod := rt.Seed(fakecri.Pod{UID: "a", Name: "p", Containers: []string{"main"}})
		time.Sleep(time.Millisecond)
		p.RequestRelist("a")
		synctest.Wait()
		before := lists(rt)
		time.Sleep(time.Millisecond)
		w.tells("a", "never-seen")
		if n := lists(rt) - before; n != 0 {
			t.Errorf("%d lists of what is known", n)
		}

		time.Sleep(time.Millisecond)
		drain(p)
		rt.Exit(pod.Containers["main"], 1)
		w.tells("a")
		wantEvents(t, p, Event{UID: "a", Type: ContainerDied, ContainerID: pod.Containers["main"]})
		time.Sleep(time.Millisecond)
		rt.Forget("a")
		w.tells("a")
		if n := lists(rt) - before; n != 2 {
			t.Errorf("%d lists for two changes", n)
		}
		w.tells("a")
		if n := lists(rt) - before; n != 2 {
			t.Errorf("%d lists, want none of a pod that is known to be gone", n)
		}
	})
}

func TestWhatTheHostTellsDuringALookIsComparedWithItsOutcome(t *testing.T) {
	for name, changes := range map[string]bool{"the same": false, "another change": true} {
		t.Run(name, func(t *testing.T) {
			watched(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime, w *fakeWatcher) {
				pod := rt.Seed(fakecri.Pod{UID: "a", Name: "p", Containers: []string{"main"}})
				rt.Inject(fakecri.Fault{Method: "PodSandboxStatus", Delay: 500 * time.Millisecond, Times: 1})
				time.Sleep(time.Millisecond)
				before := lists(rt)
				p.RequestRelist("a")
				time.Sleep(100 * time.Millisecond)
				want := 1
				if changes {
					rt.Exit(pod.Containers["main"], 1)
					want = 2
				}
				w.tells("a")
				time.Sleep(time.Second)
				if n := lists(rt) - before; n != want {
					t.Errorf("%d lists, want %d", n, want)
				}
				if st, err := p.Get("a"); err != nil || (st.Newest("main").State == cri.ContainerExited) != changes {
					t.Errorf("Get = %+v, %v", st, err)
				}
			})
		})
	}
}

// TestToldDigestSatisfiesNobodyWhoActed: what the host told before an action says nothing of its effect.
func TestToldDigestSatisfiesNobodyWhoActed(t *testing.T) {
	watched(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime, w *fakeWatcher) {
		pod := rt.Seed(fakecri.Pod{UID: "a", Name: "p", Containers: []string{"main"}})
		w.tells("a")
		old := w.message("a")
		time.Sleep(time.Millisecond)
		rt.Exit(pod.Containers["main"], 1)
		acted := time.Now()
		time.Sleep(time.Millisecond)
		w.say <- old
		st, err := p.GetNewerThan(t.Context(), "a", acted)
		if err != nil || st.Newest("main").State != cri.ContainerExited {
			t.Errorf("GetNewerThan = %+v, %v, want the exit", st, err)
		}
	})
}

func TestPodThatCouldNotBeInspectedIsLookedAtWhateverIsTold(t *testing.T) {
	watched(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime, w *fakeWatcher) {
		rt.Seed(fakecri.Pod{UID: "a", Name: "p", Containers: []string{"main"}})
		rt.Inject(fakecri.Fault{Method: "ContainerStatus", Err: errdefs.ErrUnknown, Times: 1})
		time.Sleep(time.Millisecond)
		w.tells("a")
		time.Sleep(time.Millisecond)
		w.tells("a")
		if st, err := p.Get("a"); err != nil || st.Newest("main").State != cri.ContainerRunning {
			t.Errorf("Get = %+v, %v", st, err)
		}
	})
}

func TestHeldPodIsLookedAtOnceByWhoeverHoldsIt(t *testing.T) {
	watched(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime, w *fakeWatcher) {
		before := lists(rt)
		release := p.Hold("a")
		pod := rt.Seed(fakecri.Pod{UID: "a", Name: "p", Containers: []string{"main"}})
		time.Sleep(time.Second)
		w.tells("a")
		time.Sleep(time.Second)
		rt.Exit(pod.Containers["main"], 1)
		p.RequestRelist("a")
		release()
		synctest.Wait()
		if n := lists(rt) - before; n != 1 {
			t.Errorf("%d lists, want that of the holder", n)
		}
		time.Sleep(holdFor)
		if n := lists(rt) - before; n != 1 {
			t.Errorf("%d lists in the end", n)
		}
	})
}

func TestHeldPodIsLookedAtWhenItIsReleasedOrHeldTooLong(t *testing.T) {
	for name, held := range map[string]time.Duration{"released": time.Second, "held": time.Hour} {
		t.Run(name, func(t *testing.T) {
			watched(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime, w *fakeWatcher) {
				release := p.Hold("a")
				begin := time.Now()
				rt.Seed(fakecri.Pod{UID: "a", Name: "p", Containers: []string{"main"}})
				time.Sleep(time.Millisecond)
				time.AfterFunc(held, release)
				for _, uid := range []types.UID{"a", "a"} {
					w.tells(uid)
				}
				<-p.Events()
				if took := time.Since(begin).Round(time.Second); took != min(held, holdFor) {
					t.Errorf("looked at it after %s, want %s", took, min(held, holdFor))
				}
			})
		})
	}
}
