// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
)

const testDigestPeriod = 30 * time.Second

var testWatch = host.WatchRequest{Labels: map[string]string{cri.LabelNode: "n"}, DigestPeriod: testDigestPeriod}

// watcher is a watch that goes on, and what it told.
type watcher struct {
	t      *testing.T
	cancel context.CancelFunc
	ended  chan error

	mu    sync.Mutex
	told  []host.PodsChanged
	block chan struct{} // receiving waits for it
	err   error         // of receiving
}

func startWatch(t *testing.T, h *Host) *watcher {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watcher{t: t, cancel: cancel, ended: make(chan error, 1)}
	go func() { w.ended <- h.WatchPods(ctx, testWatch, w.receive) }()
	synctest.Wait()
	return w
}

func (w *watcher) receive(pods host.PodsChanged) error {
	w.mu.Lock()
	w.told = append(w.told, pods)
	block, err := w.block, w.err
	w.mu.Unlock()
	if block != nil {
		<-block
	}
	return err
}

// take returns the pods of each message since it was called last.
func (w *watcher) take() (uids [][]types.UID, digests []uint64) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, pods := range w.told {
		uids, digests = append(uids, pods.UIDs), append(digests, pods.Digest)
	}
	w.told = nil
	return uids, digests
}

func (w *watcher) expect(what string, want ...[]types.UID) {
	w.t.Helper()
	if got, _ := w.take(); cmp.Diff(want, got) != "" {
		w.t.Errorf("%s: told of %v, want %v", what, got, want)
	}
}

func (w *watcher) stop() {
	w.t.Helper()
	w.cancel()
	if err := <-w.ended; !errors.Is(err, context.Canceled) {
		w.t.Errorf("ended with %v", err)
	}
}

// run puts a pod with one container into the runtime, or changes the state of its container.
func (r *fakeRuntime) run(uid string, state runtimeapi.ContainerState) {
	r.set(func(r *fakeRuntime) {
		for i, c := range r.containers {
			if c.GetId() == "c-"+uid {
				r.containers = append(r.containers[:i:i], r.containers[i+1:]...)
				break
			}
		}
		if len(r.sandboxes) == 0 || r.sandboxes[len(r.sandboxes)-1].GetMetadata().GetUid() != uid {
			r.sandboxes = append(r.sandboxes, &runtimeapi.PodSandbox{Id: "s-" + uid, Metadata: &runtimeapi.PodSandboxMetadata{Uid: uid}})
		}
		r.containers = append(r.containers, &runtimeapi.Container{Id: "c-" + uid, State: state, Labels: map[string]string{cri.LabelPodUID: uid}})
	})
}

func watchTest(t *testing.T, test func(t *testing.T, h *Host, rt *fakeRuntime)) {
	t.Helper()
	hookTest(t, test)
}

func TestWatchTellsEverythingThenChangesThenDigests(t *testing.T) {
	watchTest(t, func(t *testing.T, h *Host, rt *fakeRuntime) {
		rt.run("b", runtimeapi.ContainerState_CONTAINER_RUNNING)
		rt.run("a", runtimeapi.ContainerState_CONTAINER_RUNNING)
		w := startWatch(t, h)
		uids, digests := w.take()
		if diff := cmp.Diff([][]types.UID{{"a", "b"}}, uids); diff != "" {
			t.Fatal(diff)
		}
		want := host.PodsDigest([]host.ObjectState{{ID: "s-a"}, {ID: "s-b"}, {ID: "c-a", State: 1}, {ID: "c-b", State: 1}})
		if digests[0] != want {
			t.Errorf("digest %x, want %x", digests[0], want)
		}
		time.Sleep(testDigestPeriod - time.Second)
		w.expect("idle")
		time.Sleep(2 * time.Second)
		w.expect("idle for a digest period", nil)
		rt.run("a", runtimeapi.ContainerState_CONTAINER_EXITED)
		time.Sleep(relistPeriod)
		w.expect("one exited", []types.UID{"a"})
		rt.set(func(r *fakeRuntime) { r.containers, r.sandboxes = nil, nil })
		time.Sleep(relistPeriod)
		w.expect("all gone", []types.UID{"a", "b"})
		w.stop()
	})
}

func TestWatchTellsADigestOfEachPod(t *testing.T) {
	watchTest(t, func(t *testing.T, h *Host, rt *fakeRuntime) {
		rt.run("a", runtimeapi.ContainerState_CONTAINER_RUNNING)
		rt.run("b", runtimeapi.ContainerState_CONTAINER_RUNNING)
		w := startWatch(t, h)
		rt.set(func(r *fakeRuntime) { r.containers, r.sandboxes = nil, nil })
		rt.run("b", runtimeapi.ContainerState_CONTAINER_EXITED)
		time.Sleep(relistPeriod)
		synctest.Wait()
		var got [][]uint64
		for _, pods := range w.told {
			got = append(got, pods.Digests)
		}
		of := func(uid string, state int32) uint64 {
			return host.PodsDigest([]host.ObjectState{{ID: "s-" + uid}, {ID: "c-" + uid, State: state}})
		}
		want := [][]uint64{{of("a", 1), of("b", 1)}, {host.PodsDigest(nil), of("b", 2)}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		w.stop()
	})
}

func TestWatchOfAnEmptyRuntimeSaysSo(t *testing.T) {
	watchTest(t, func(t *testing.T, h *Host, _ *fakeRuntime) {
		w := startWatch(t, h)
		w.expect("nothing there", nil)
		w.stop()
	})
}

func TestEndWakesTheWatchAtOnceAndManyWakeItOnce(t *testing.T) {
	watchTest(t, func(t *testing.T, h *Host, rt *fakeRuntime) {
		events := make(chan *runtimeapi.ContainerEventResponse)
		rt.events = func(ctx context.Context, event func(*runtimeapi.ContainerEventResponse)) error {
			for {
				select {
				case e := <-events:
					event(e)
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
		w := startWatch(t, h)
		w.expect("at first", nil)
		time.Sleep(relistPeriod / 2)
		rt.run("a", runtimeapi.ContainerState_CONTAINER_RUNNING)
		stopped := runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT
		events <- &runtimeapi.ContainerEventResponse{ContainerEventType: stopped}
		w.expect("without any delay", []types.UID{"a"})

		before := rt.listed()
		for range 1000 {
			events <- &runtimeapi.ContainerEventResponse{ContainerEventType: stopped}
		}
		time.Sleep(relistGap)
		synctest.Wait()
		if n := rt.listed() - before; n != 1 {
			t.Errorf("%d events made %d lists", 1000, n)
		}
		time.Sleep(relistPeriod / 2)
		before = rt.listed()
		events <- &runtimeapi.ContainerEventResponse{
			ContainerEventType: stopped,
			PodSandboxStatus:   &runtimeapi.PodSandboxStatus{Labels: map[string]string{cri.LabelNode: "other"}},
		}
		for _, own := range []runtimeapi.ContainerEventType{
			runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT,
			runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT,
		} {
			events <- &runtimeapi.ContainerEventResponse{ContainerEventType: own}
		}
		synctest.Wait()
		if n := rt.listed() - before; n != 0 {
			t.Errorf("events of somebody else's pod and of what the receiver does itself made %d lists", n)
		}
		w.stop()
	})
}

func TestSlowRuntimeIsLookedAtAFifthOfTheTimeHoweverManyEventsThereAre(t *testing.T) {
	for name, tt := range map[string]struct {
		takes time.Duration
		want  int
	}{
		"slow":               {100 * time.Millisecond, 120},
		"slower than a look": {time.Second, 12},
		"all but hanging":    {10 * time.Second, 4},
	} {
		t.Run(name, func(t *testing.T) {
			watchTest(t, func(t *testing.T, h *Host, rt *fakeRuntime) {
				rt.listing = tt.takes
				rt.events = func(ctx context.Context, event func(*runtimeapi.ContainerEventResponse)) error {
					tick := time.NewTicker(time.Millisecond)
					defer tick.Stop()
					for ctx.Err() == nil {
						<-tick.C
						event(&runtimeapi.ContainerEventResponse{
							ContainerEventType: runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT,
						})
					}
					return ctx.Err()
				}
				w := startWatch(t, h)
				before := rt.listed()
				time.Sleep(time.Minute)
				if n := rt.listed() - before; n != tt.want && n != tt.want-1 {
					t.Errorf("%d looks in a minute that take %s each, want %d", n, tt.takes, tt.want)
				}
				w.stop()
			})
		})
	}
}

func (r *fakeRuntime) listed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lists
}

func TestEventsThatEndForEverAreAskedForLessAndLessOftenAndNotNeeded(t *testing.T) {
	watchTest(t, func(t *testing.T, h *Host, rt *fakeRuntime) {
		var mu sync.Mutex
		opened := 0
		rt.events = func(context.Context, func(*runtimeapi.ContainerEventResponse)) error {
			mu.Lock()
			defer mu.Unlock()
			opened++
			return errdefs.ErrUnavailable
		}
		w := startWatch(t, h)
		time.Sleep(time.Hour)
		mu.Lock()
		if low, high := int(time.Hour/(2*maxFollowDelay)), int(time.Hour/maxFollowDelay)+10; opened < low || opened > high {
			t.Errorf("asked for events %d times in an hour, want %d to %d", opened, low, high)
		}
		mu.Unlock()
		w.take()
		rt.run("a", runtimeapi.ContainerState_CONTAINER_RUNNING)
		time.Sleep(relistPeriod)
		if uids, _ := w.take(); len(uids) == 0 || cmp.Diff([]types.UID{"a"}, uids[len(uids)-1]) != "" {
			t.Errorf("told of %v", uids)
		}
		w.stop()
	})
}

func TestWatchEndsWhenTheRuntimeDoesNotAnswerAndBeginsAnewAfterIt(t *testing.T) {
	for name, class := range map[string]error{"unreachable": errdefs.ErrUnavailable, "silent": context.DeadlineExceeded} {
		t.Run(name, func(t *testing.T) {
			watchTest(t, func(t *testing.T, h *Host, rt *fakeRuntime) {
				rt.run("a", runtimeapi.ContainerState_CONTAINER_RUNNING)
				w := startWatch(t, h)
				w.expect("before", []types.UID{"a"})
				rt.set(func(r *fakeRuntime) { r.err = class })
				if err := <-w.ended; !errdefs.IsUnavailable(err) {
					t.Errorf("ended with %v", err)
				}
				if err := h.WatchPods(t.Context(), testWatch, w.receive); !errdefs.IsUnavailable(err) {
					t.Errorf("while it is down: %v", err)
				}
				w.expect("while it is down")
				rt.set(func(r *fakeRuntime) { r.err = nil })
				w = startWatch(t, h)
				w.expect("after", []types.UID{"a"})
				w.stop()
			})
		})
	}
}

func TestSlowReceiverGetsWhatChangedMeanwhileInOneMessage(t *testing.T) {
	watchTest(t, func(t *testing.T, h *Host, rt *fakeRuntime) {
		w := startWatch(t, h)
		w.expect("at first", nil)
		block := make(chan struct{})
		w.mu.Lock()
		w.block = block
		w.mu.Unlock()
		rt.run("a", runtimeapi.ContainerState_CONTAINER_RUNNING)
		time.Sleep(relistPeriod)
		synctest.Wait() // the relist of this very instant sees a alone
		for _, uid := range []string{"b", "c"} {
			rt.run(uid, runtimeapi.ContainerState_CONTAINER_RUNNING)
			time.Sleep(time.Minute)
		}
		w.expect("while it is slow", []types.UID{"a"})
		w.mu.Lock()
		w.block = nil
		w.mu.Unlock()
		close(block)
		time.Sleep(relistPeriod)
		w.expect("after it", []types.UID{"b", "c"})
		w.stop()
	})
}

func TestReceiverThatFailsEndsTheWatchWithItsError(t *testing.T) {
	watchTest(t, func(t *testing.T, h *Host, _ *fakeRuntime) {
		broken := errors.New("broken")
		err := h.WatchPods(t.Context(), testWatch, func(host.PodsChanged) error { return broken })
		if !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
	})
}

func TestBadWatchesAreRefused(t *testing.T) {
	h, _ := newTestHost(t)
	for _, req := range []host.WatchRequest{{DigestPeriod: time.Second}, {Labels: testWatch.Labels}} {
		err := h.WatchPods(t.Context(), req, func(host.PodsChanged) error { return nil })
		if !errdefs.IsInvalidArgument(err) {
			t.Errorf("%+v: %v", req, err)
		}
	}
}
