// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package pleg

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

// fakeWatcher is the host's side: the test says what it tells.
type fakeWatcher struct {
	rt *fakecri.Runtime

	mu      sync.Mutex
	watches int
	refuse  error
	lie     uint64 // is told instead of the right digest unless it is zero
	say     chan host.PodsChanged
	broken  chan error
}

func newFakeWatcher(rt *fakecri.Runtime) *fakeWatcher {
	return &fakeWatcher{rt: rt, say: make(chan host.PodsChanged), broken: make(chan error)}
}

// WatchPods tells the first message, then a digest at each period and what the test says, which follow each other.
func (f *fakeWatcher) WatchPods(ctx context.Context, req host.WatchRequest, changed func(host.PodsChanged) error) error {
	f.mu.Lock()
	f.watches++
	refuse := f.refuse
	f.mu.Unlock()
	if refuse != nil {
		return refuse
	}
	if err := changed(host.PodsChanged{Digest: f.digest()}); err != nil {
		return err
	}
	tick := time.NewTicker(req.DigestPeriod)
	defer tick.Stop()
	for {
		message := host.PodsChanged{}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-f.broken:
			return err
		case <-tick.C:
			message.Digest = f.digest()
		case message = <-f.say:
		}
		if err := changed(message); err != nil {
			return err
		}
	}
}

// names tells that pods changed.
func (f *fakeWatcher) names(uids ...types.UID) {
	f.say <- host.PodsChanged{UIDs: uids, Digest: f.digest()}
	synctest.Wait()
}

func (f *fakeWatcher) setRefuse(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = err
}

func (f *fakeWatcher) begun() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.watches
}

// tells tells that pods changed, and what they have.
func (f *fakeWatcher) tells(uids ...types.UID) {
	f.say <- f.message(uids...)
	synctest.Wait()
}

// message is what tells tells now.
func (f *fakeWatcher) message(uids ...types.UID) host.PodsChanged {
	m := host.PodsChanged{UIDs: uids, Digest: f.digest()}
	for _, uid := range uids {
		m.Digests = append(m.Digests, f.digestOf(uid))
	}
	return m
}

// digest is that of what the runtime has now.
func (f *fakeWatcher) digest() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lie != 0 {
		return f.lie
	}
	return f.digestOf("")
}

// digestOf is that of what the runtime has of a pod, of all without a UID.
func (f *fakeWatcher) digestOf(uid types.UID) uint64 {
	var objects []host.ObjectState
	for _, box := range f.rt.Sandboxes(uid) {
		state := runtimeapi.PodSandboxState_SANDBOX_NOTREADY
		if box.Ready {
			state = runtimeapi.PodSandboxState_SANDBOX_READY
		}
		objects = append(objects, host.ObjectState{ID: box.ID, State: int32(state)})
	}
	for _, c := range f.rt.Containers(uid) {
		objects = append(objects, host.ObjectState{ID: c.ID, State: int32(c.State)})
	}
	return host.PodsDigest(objects)
}

// watched is observed with a host that tells of changes.
func watched(t *testing.T, f func(t *testing.T, p *PLEG, rt *fakecri.Runtime, w *fakeWatcher)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		rt := fakecri.Start(t, fakecri.Options{})
		w := newFakeWatcher(rt)
		p := New(Options{Runtime: rt.Client(), Watcher: w})
		run(t, p)
		f(t, p, rt, w)
	})
}

func seed(rt *fakecri.Runtime, n int) {
	for i := range n {
		rt.Seed(fakecri.Pod{UID: types.UID(fmt.Sprint("p", i)), Name: fmt.Sprint("p", i), Containers: []string{"main"}})
	}
}

func TestIdlePodsCauseNoCallsWhileTheHostTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fakecri.Start(t, fakecri.Options{})
		seed(rt, 100)
		w := newFakeWatcher(rt)
		p := New(Options{Runtime: rt.Client(), Watcher: w})
		run(t, p)
		drain(p)
		settled := len(rt.Calls())
		time.Sleep(DefaultSafetyPeriod - time.Second)
		if n := len(rt.Calls()) - settled; n != 0 {
			t.Errorf("%d calls while nothing happened, want none", n)
		}
		if err := p.Healthy(); err != nil {
			t.Errorf("Healthy = %v, want the host's digests to count", err)
		}
		time.Sleep(2 * time.Second)
		if n := len(rt.Calls()) - settled; n != 2 {
			t.Errorf("%d calls in a safety period, want the two lists of one relist", n)
		}
		if n := testutil.ToFloat64(p.metrics.mismatches); n != 0 {
			t.Errorf("%v mismatches", n)
		}
	})
}

func TestNamedPodsAreLookedAtOneByOne(t *testing.T) {
	watched(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime, w *fakeWatcher) {
		pod := rt.Seed(fakecri.Pod{UID: "a", Name: "p", Containers: []string{"main"}})
		time.Sleep(time.Millisecond)
		w.names("a")
		wantEvents(t, p,
			Event{UID: "a", Type: ContainerStarted, ContainerID: pod.Sandbox},
			Event{UID: "a", Type: ContainerStarted, ContainerID: pod.Containers["main"]})
		if pods, _, _ := p.Observation(); len(pods) != 1 || !pods[0].Running {
			t.Errorf("Observation = %v, want the pod", pods)
		}

		time.Sleep(time.Millisecond)
		rt.Exit(pod.Containers["main"], 2)
		w.names("a")
		wantEvents(t, p, Event{UID: "a", Type: ContainerDied, ContainerID: pod.Containers["main"]})

		time.Sleep(time.Millisecond)
		rt.Forget("a")
		w.names("a")
		if got := drain(p); len(got) != 3 {
			t.Errorf("events %v, want the sandbox's end and both removals", got)
		}
		if pods, _, _ := p.Observation(); len(pods) != 0 {
			t.Errorf("Observation = %v, want nothing after a complete list of the pod had nothing", pods)
		}
		if st, err := p.Get("a"); err != nil || len(st.Containers) != 0 {
			t.Errorf("Get = %+v, %v, want an empty observation", st, err)
		}
	})
}

func TestPodsAreRelistedWhenTheWatchComesBack(t *testing.T) {
	watched(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime, w *fakeWatcher) {
		pod := rt.Seed(fakecri.Pod{UID: "a", Name: "p", Containers: []string{"main"}})
		w.names("a")
		drain(p)
		time.Sleep(time.Minute)
		w.setRefuse(errdefs.ErrUnavailable)
		rt.Cut()
		w.broken <- errdefs.ErrUnavailable
		time.Sleep(10 * time.Minute)
		if err := p.Healthy(); err == nil {
			t.Error("Healthy = nil without a link for ten minutes")
		}
		rt.Exit(pod.Containers["main"], 1)
		rt.Mend()
		w.setRefuse(nil)
		time.Sleep(longestWatchPause)
		synctest.Wait()
		wantEvents(t, p, Event{UID: "a", Type: ContainerDied, ContainerID: pod.Containers["main"]})
		if err := p.Healthy(); err != nil {
			t.Errorf("Healthy = %v", err)
		}
		settled := len(rt.Calls())
		time.Sleep(time.Minute)
		if n := len(rt.Calls()) - settled; n != 0 {
			t.Errorf("%d calls after the watch came back, want an idle link", n)
		}
	})
}

func TestHostThatCannotWatchIsRelistedEverySecondAndAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fakecri.Start(t, fakecri.Options{})
		w := newFakeWatcher(rt)
		w.refuse = fmt.Errorf("watching: %w", errdefs.ErrNotImplemented)
		p := New(Options{Runtime: rt.Client(), Watcher: w})
		run(t, p)
		before := len(rt.Calls("ListContainers"))
		relists(10)
		if n := len(rt.Calls("ListContainers")) - before; n != 10 {
			t.Errorf("%d relists in 10 s, want one each second", n)
		}
		if n := w.begun(); n != 1 {
			t.Errorf("%d watches, want no second attempt so soon", n)
		}
		w.setRefuse(nil) // the host was upgraded
		time.Sleep(DefaultSafetyPeriod)
		before = len(rt.Calls("ListContainers"))
		time.Sleep(time.Minute)
		if n := len(rt.Calls("ListContainers")) - before; n != 0 {
			t.Errorf("%d relists in a minute, want none once the host can watch", n)
		}
	})
}

func TestForeignDigestLeadsToARelistButNotToALoop(t *testing.T) {
	watched(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime, w *fakeWatcher) {
		pod := rt.Seed(fakecri.Pod{UID: "a", Name: "p", Containers: []string{"main"}})
		w.names("a")
		time.Sleep(DefaultDigestPeriod * 5 / 2) // between two digests
		drain(p)
		// The host forgets to tell of an exit.
		rt.Exit(pod.Containers["main"], 1)
		time.Sleep(DefaultDigestPeriod)
		synctest.Wait()
		wantEvents(t, p, Event{UID: "a", Type: ContainerDied, ContainerID: pod.Containers["main"]})
		if n := testutil.ToFloat64(p.metrics.mismatches); n != 1 {
			t.Errorf("%v mismatches, want 1", n)
		}
		time.Sleep(2 * DefaultDigestPeriod)
		// Digests that never fit cause ever fewer relists.
		before := len(rt.Calls("ListContainers"))
		w.mu.Lock()
		w.lie = 7
		w.mu.Unlock()
		time.Sleep(DefaultSafetyPeriod - time.Minute)
		for range 20 {
			w.say <- host.PodsChanged{Digest: 7}
			synctest.Wait()
		}
		if n := len(rt.Calls("ListContainers")) - before; n != 5 {
			t.Errorf("%d relists for 28 digests that do not fit, want them after 1, 2, 4, 8 and 16", n)
		}
	})
}

func TestDigestDuringAChangeSaysNothing(t *testing.T) {
	watched(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime, w *fakeWatcher) {
		pod := rt.Seed(fakecri.Pod{UID: "a", Name: "p", Containers: []string{"main"}})
		w.names("a")
		old := w.digest()
		time.Sleep(DefaultDigestPeriod * 5 / 2) // between two digests
		before := len(rt.Calls("ListPodSandbox"))

		// Our own action is seen on demand before the host tells of it: its older digest is no news.
		rt.Exit(pod.Containers["main"], 1)
		p.RequestRelist("a")
		synctest.Wait()
		w.say <- host.PodsChanged{Digest: old}
		synctest.Wait()

		// So is one that comes while a pod is being looked at.
		hang := rt.Inject(fakecri.Fault{Method: "ListContainers", Hang: true, Times: 1})
		time.Sleep(time.Millisecond)
		p.RequestRelist("a")
		synctest.Wait()
		w.say <- host.PodsChanged{Digest: old}
		synctest.Wait()
		hang.Remove()
		synctest.Wait()
		if n := testutil.ToFloat64(p.metrics.mismatches); n != 0 {
			t.Errorf("%v mismatches, want none", n)
		}
		if n := len(rt.Calls("ListPodSandbox")) - before; n != 2 {
			t.Errorf("%d lists, want the two on demand", n)
		}
	})
}

func TestWaiterDoesNotWaitForTheSafetyNet(t *testing.T) {
	watched(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime, w *fakeWatcher) {
		rt.Seed(fakecri.Pod{UID: "a", Name: "p", Containers: []string{"main"}})
		w.names("a")
		time.Sleep(time.Minute)
		for _, uid := range []types.UID{"a", "absent"} {
			acted := time.Now()
			time.Sleep(time.Millisecond)
			// The first attempt to look fails.
			rt.Inject(fakecri.Fault{Method: "ListContainers", Err: errdefs.ErrUnavailable, Times: 1})
			if _, err := p.GetNewerThan(t.Context(), uid, acted); err != nil {
				t.Errorf("GetNewerThan(%s) = %v", uid, err)
			}
			if took := time.Since(acted); took > 2*time.Second {
				t.Errorf("waited %s for %s", took, uid)
			}
		}
	})
}

func TestPodThatKeepsFailingIsInspectedEverMoreRarely(t *testing.T) {
	watched(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime, w *fakeWatcher) {
		fault := rt.Inject(fakecri.Fault{Method: "ContainerStatus", Err: errdefs.ErrUnknown, Selector: fakecri.Selector{UID: "bad"}})
		bad := rt.Seed(fakecri.Pod{UID: "bad", Name: "bad", Containers: []string{"main"}})
		good := rt.Seed(fakecri.Pod{UID: "good", Name: "good", Containers: []string{"main"}})
		w.names("bad", "good")
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(rt.Calls("ContainerStatus")); n < 6 || n > 12 {
			t.Errorf("%d inspections in a minute, want pauses of up to %s", n, longestRetry)
		}
		if _, err := p.Get("good"); err != nil {
			t.Errorf("Get of another pod = %v", err)
		}
		drain(p)
		rt.Exit(good.Containers["main"], 1)
		w.names("good")
		wantEvents(t, p, Event{UID: "good", Type: ContainerDied, ContainerID: good.Containers["main"]})
		fault.Remove()
		time.Sleep(longestRetry)
		synctest.Wait()
		if st, err := p.Get("bad"); err != nil || st.Newest("main").State != cri.ContainerRunning {
			t.Errorf("Get = %+v, %v, want the pod %s", st, err, bad.Sandbox)
		}
	})
}

func TestFailingPodIsNotInspectedAtEachRelist(t *testing.T) {
	observed(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime) {
		rt.Inject(fakecri.Fault{Method: "ContainerStatus", Err: errdefs.ErrUnknown})
		rt.Seed(fakecri.Pod{UID: "bad", Name: "bad", Containers: []string{"main"}})
		relists(60)
		if n := len(rt.Calls("ContainerStatus")); n > 12 {
			t.Errorf("%d inspections in a minute, want pauses of up to %s", n, longestRetry)
		}
		if _, err := p.Get("bad"); !errdefs.IsUnknown(err) {
			t.Errorf("Get = %v, want the error of the inspection", err)
		}
	})
}
