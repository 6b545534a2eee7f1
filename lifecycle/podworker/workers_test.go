// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/cri"
)

// fakeSteps records the steps and does what a test tells it to.
type fakeSteps struct {
	mu          sync.Mutex
	trace       []string
	deadlines   []time.Duration
	start       time.Time
	sync        func(ctx context.Context) (Outcome, error)
	terminating func(ctx context.Context, deadline time.Time) error
	terminated  func() error
	// terminatingRuntime is what the end of an orphan's step is.
	terminatingRuntime func() error
}

func (f *fakeSteps) note(s string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trace = append(f.trace, s)
}

func (f *fakeSteps) steps() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.trace)
}

func (f *fakeSteps) SyncPod(ctx context.Context, u UpdateType, _ *v1.Pod, _ *cri.PodStatus) (Outcome, error) {
	f.note(u.String())
	if f.sync != nil {
		return f.sync(ctx)
	}
	return Outcome{}, nil
}

func (f *fakeSteps) SyncTerminatingPod(ctx context.Context, _ *v1.Pod, _ *cri.PodStatus, deadline time.Time) error {
	f.note("terminating")
	f.mu.Lock()
	f.deadlines = append(f.deadlines, deadline.Sub(f.start))
	f.mu.Unlock()
	if f.terminating != nil {
		return f.terminating(ctx, deadline)
	}
	return nil
}

func (f *fakeSteps) SyncTerminatingRuntimePod(context.Context, *RuntimePod, time.Time) error {
	f.note("terminating-runtime")
	if f.terminatingRuntime != nil {
		return f.terminatingRuntime()
	}
	return nil
}

func (f *fakeSteps) SyncTerminatedPod(context.Context, *v1.Pod, *cri.PodStatus) error {
	f.note("terminated")
	if f.terminated != nil {
		return f.terminated()
	}
	return nil
}

// fakeCache answers after a while and remembers how new the answer had to be.
type fakeCache struct {
	mu    sync.Mutex
	asked []time.Time
	takes time.Duration
	err   error
	runs  bool
}

func (f *fakeCache) MayRun(types.UID) bool { return f.runs }

func (f *fakeCache) GetNewerThan(ctx context.Context, uid types.UID, t time.Time) (*cri.PodStatus, error) {
	f.mu.Lock()
	f.asked = append(f.asked, t)
	takes, err := f.takes, f.err
	f.mu.Unlock()
	if takes > 0 {
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return &cri.PodStatus{UID: uid}, err
}

// takes is how long answers take from now on.
func (f *fakeCache) take(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.takes = d
}

// harness runs body in a bubble whose clock is fake and checks that every goroutine ended.
func harness(t *testing.T, steps *fakeSteps, body func(w *Workers, cache *fakeCache)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cache := &fakeCache{}
		steps.start = time.Now()
		w := New(ctx, Options{Steps: steps, Cache: cache, Clock: clock.RealClock{}, Jitter: func() float64 { return 0 }})
		body(w, cache)
		cancel()
		w.Wait()
	})
}

func expect(t *testing.T, steps *fakeSteps, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := steps.steps(); !slices.Equal(got, want) {
		t.Errorf("steps %v, want %v", got, want)
	}
}

func TestPodIsResyncedEveryMinute(t *testing.T) {
	steps := &fakeSteps{}
	harness(t, steps, func(w *Workers, _ *fakeCache) {
		w.Update(Update{Type: Create, Pod: pod(30)})
		time.Sleep(2*resyncInterval + time.Second)
		expect(t, steps, "create", "sync", "sync")
	})
}

func TestDeletedPodGoesThroughEveryPhaseOnce(t *testing.T) {
	steps := &fakeSteps{}
	harness(t, steps, func(w *Workers, _ *fakeCache) {
		w.Update(Update{Type: Create, Pod: pod(30)})
		synctest.Wait()
		w.Update(Update{Type: Change, Pod: deleted(30, 30, time.Now())})
		expect(t, steps, "create", "terminating", "terminated")
		w.Update(Update{Type: Change, Pod: deleted(30, 30, time.Now())})
		time.Sleep(time.Hour)
		expect(t, steps, "create", "terminating", "terminated")
		if !w.Known("u1") {
			t.Error("a finished pod that is still desired was forgotten")
		}
		w.Forget(map[types.UID]struct{}{"u1": {}})
		if !w.Known("u1") {
			t.Error("a finished pod that is still desired was forgotten by Forget")
		}
		w.Forget(nil)
		if w.Known("u1") {
			t.Error("a finished pod that nobody wants is still remembered")
		}
	})
}

func TestPodThatEndsByItselfIsTerminated(t *testing.T) {
	steps := &fakeSteps{sync: func(context.Context) (Outcome, error) { return Outcome{Terminal: true}, nil }}
	harness(t, steps, func(w *Workers, _ *fakeCache) {
		w.Update(Update{Type: Create, Pod: pod(30)})
		expect(t, steps, "create", "terminating", "terminated")
	})
}

func TestDeletionCancelsARunningSync(t *testing.T) {
	steps := &fakeSteps{sync: func(ctx context.Context) (Outcome, error) { <-ctx.Done(); return Outcome{}, ctx.Err() }}
	harness(t, steps, func(w *Workers, _ *fakeCache) {
		w.Update(Update{Type: Create, Pod: pod(30)})
		synctest.Wait()
		w.Update(Update{Type: Change, Pod: deleted(30, 30, time.Now())})
		expect(t, steps, "create", "terminating", "terminated")
	})
}

func TestShorterGraceInterruptsTheTerminatingStep(t *testing.T) {
	steps := &fakeSteps{}
	steps.terminating = func(ctx context.Context, deadline time.Time) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(deadline)):
			return nil
		}
	}
	harness(t, steps, func(w *Workers, _ *fakeCache) {
		w.Update(Update{Type: Create, Pod: pod(600)})
		synctest.Wait()
		w.Update(Update{Type: Change, Pod: deleted(600, 600, time.Now())})
		time.Sleep(5 * time.Second)
		w.Update(Update{Type: Kill, Pod: pod(600), Grace: ptr.To(time.Second)})
		time.Sleep(1100 * time.Millisecond)
		expect(t, steps, "create", "terminating", "terminating", "terminated")
		if want := []time.Duration{600 * time.Second, 6 * time.Second}; !slices.Equal(steps.deadlines, want) {
			t.Errorf("deadlines %v, want %v", steps.deadlines, want)
		}
	})
}

func TestDeadlineThatPassesWhileNothingCanBeObservedIsMovedOnce(t *testing.T) {
	steps := &fakeSteps{}
	steps.terminating = func(context.Context, time.Time) error { return errors.New("runtime says no") }
	harness(t, steps, func(w *Workers, cache *fakeCache) {
		w.Update(Update{Type: Create, Pod: pod(30)})
		synctest.Wait()
		cache.take(5 * time.Minute) // the link was cut before the pod's start could be seen
		w.Update(Update{Type: Change, Pod: deleted(30, 30, time.Now())})
		time.Sleep(time.Minute)
		w.Update(Update{Type: Change, Pod: deleted(30, 30, time.Now())})
		time.Sleep(4*time.Minute - time.Second)
		cache.take(0) // for the next step
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(steps.deadlines) < 2 {
			t.Errorf("%d steps", len(steps.deadlines))
		}
		for _, d := range steps.deadlines {
			if d != 310*time.Second {
				t.Errorf("deadlines %v, want ten seconds after the first observation", steps.deadlines)
				break
			}
		}
	})
}

func TestFailedTerminationIsRetriedUntilItSucceeds(t *testing.T) {
	tries := 0
	steps := &fakeSteps{terminating: func(context.Context, time.Time) error {
		if tries++; tries < 4 {
			return errors.New("runtime says no")
		}
		return nil
	}}
	harness(t, steps, func(w *Workers, _ *fakeCache) {
		w.Update(Update{Type: Kill, Pod: pod(30)})
		time.Sleep(time.Minute)
		expect(t, steps, "terminating", "terminating", "terminating", "terminating", "terminated")
	})
}

func TestStepNeverActsOnAViewOlderThanTheStepBefore(t *testing.T) {
	steps := &fakeSteps{sync: func(context.Context) (Outcome, error) {
		time.Sleep(3 * time.Second)
		return Outcome{Acted: time.Now().Add(-time.Second)}, nil
	}}
	harness(t, steps, func(w *Workers, cache *fakeCache) {
		begin := time.Now()
		w.Update(Update{Type: Create, Pod: pod(30)})
		time.Sleep(time.Second)
		w.Update(Update{Type: Sync, Pod: pod(30)})
		time.Sleep(10 * time.Second)
		expect(t, steps, "create", "sync")
		if len(cache.asked) != 2 || !cache.asked[0].IsZero() || cache.asked[1].Sub(begin) != 2*time.Second {
			t.Errorf("asked for views newer than %v, want any and then one of after what the first step did", cache.asked)
		}
	})
}

func TestUpdatesDuringAStepAreCoalesced(t *testing.T) {
	steps := &fakeSteps{sync: func(context.Context) (Outcome, error) { time.Sleep(time.Second); return Outcome{}, nil }}
	harness(t, steps, func(w *Workers, _ *fakeCache) {
		w.Update(Update{Type: Create, Pod: pod(30)})
		synctest.Wait()
		for range 50 {
			w.Update(Update{Type: Change, Pod: pod(30)})
		}
		time.Sleep(10 * time.Second)
		expect(t, steps, "create", "update")
	})
}

func TestUnobservablePodIsWarnedAboutAndRetried(t *testing.T) {
	var warned []string
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := New(ctx, Options{
			Steps: &fakeSteps{}, Cache: &fakeCache{err: errors.New("inspect")}, Clock: clock.RealClock{},
			Warn: func(_ *v1.Pod, reason, msg string) { warned = append(warned, reason+": "+msg) },
		})
		w.Update(Update{Type: Create, Pod: pod(30)})
		time.Sleep(31 * time.Second)
		cancel()
		w.Wait()
	})
	if len(warned) < 2 || warned[0] != "FailedSync: error determining status: inspect" {
		t.Errorf("warnings %q", warned)
	}
}

func TestLostLinkWarnsOfNoPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cache := &fakeCache{err: fmt.Errorf("inspecting: %w", errdefs.ErrUnavailable)}
		w := New(ctx, Options{
			Steps: &fakeSteps{}, Cache: cache, Clock: clock.RealClock{},
			Warn: func(_ *v1.Pod, reason, msg string) { t.Errorf("warned: %s: %s", reason, msg) },
		})
		w.Update(Update{Type: Create, Pod: pod(30)})
		time.Sleep(30 * time.Second)
		cancel()
		w.Wait()
		if len(cache.asked) < 2 {
			t.Errorf("asked %d times, want it tried again", len(cache.asked))
		}
	})
}

func TestOrphanIsStoppedAndForgotten(t *testing.T) {
	steps := &fakeSteps{}
	harness(t, steps, func(w *Workers, _ *fakeCache) {
		w.Update(Update{Type: Kill, Runtime: &RuntimePod{UID: "u9"}, Grace: ptr.To(time.Second)})
		expect(t, steps, "terminating-runtime")
		if w.Known("u9") {
			t.Error("an orphan that ended is still remembered")
		}
	})
}

func TestPodThatIsWantedWhileItStopsAsAnOrphanStartsAfterIt(t *testing.T) {
	steps := &fakeSteps{}
	tries := 0
	steps.terminatingRuntime = func() error {
		if tries++; tries == 1 {
			return errors.New("runtime says no")
		}
		return nil
	}
	harness(t, steps, func(w *Workers, _ *fakeCache) {
		w.Update(Update{Type: Kill, Runtime: &RuntimePod{UID: "u1"}, Grace: ptr.To(time.Second)})
		synctest.Wait()
		w.Update(Update{Type: Create, Pod: pod(30)}) // its manifest is back
		time.Sleep(5 * time.Second)
		expect(t, steps, "terminating-runtime", "terminating-runtime")
		if w.Known("u1") {
			t.Error("the pod cannot be created anew")
		}
	})
}

func TestSameNameWithANewUIDRunsBesideTheOld(t *testing.T) {
	steps := &fakeSteps{terminating: func(ctx context.Context, _ time.Time) error {
		<-ctx.Done()
		return ctx.Err()
	}}
	harness(t, steps, func(w *Workers, _ *fakeCache) {
		w.Update(Update{Type: Change, Pod: deleted(30, 30, time.Now())})
		synctest.Wait()
		fresh := pod(30)
		fresh.UID = "u2"
		w.Update(Update{Type: Create, Pod: fresh})
		expect(t, steps, "terminating", "create")
	})
}

func TestAnswersBeforeAndAfterTheDesiredSetIsComplete(t *testing.T) {
	harness(t, &fakeSteps{}, func(w *Workers, _ *fakeCache) {
		if !w.CouldHaveRunningContainers("x") || w.ContentRemovable("x", false) {
			t.Error("before the first complete list an unknown pod may run and must be left alone")
		}
		w.Forget(nil)
		if w.CouldHaveRunningContainers("x") || !w.ContentRemovable("x", false) {
			t.Error("after it an unknown pod that is not desired is gone")
		}
		if w.ContentRemovable("x", true) {
			t.Error("the remains of a desired pod are not removable")
		}
	})
}

func TestStoppingTheProcessLeavesPodsWhereTheyAre(t *testing.T) {
	steps := &fakeSteps{sync: func(ctx context.Context) (Outcome, error) { <-ctx.Done(); return Outcome{}, ctx.Err() }}
	harness(t, steps, func(w *Workers, _ *fakeCache) {
		w.Update(Update{Type: Create, Pod: pod(30)})
		synctest.Wait()
	})
	if got := steps.steps(); !slices.Equal(got, []string{"create"}) {
		t.Errorf("steps %v, want no termination", got)
	}
}

func TestStepThatDidNothingNeedsNoNewerView(t *testing.T) {
	harness(t, &fakeSteps{}, func(w *Workers, cache *fakeCache) {
		w.Update(Update{Type: Create, Pod: pod(30)})
		time.Sleep(resyncInterval + time.Second)
		synctest.Wait()
		if want := []time.Time{{}, {}}; !slices.Equal(cache.asked, want) {
			t.Errorf("asked for views newer than %v, want any: nothing was changed", cache.asked)
		}
	})
}

func TestPodThatHadEndedBeforeWeStartedIsOnlyCleanedUp(t *testing.T) {
	for _, runs := range []bool{false, true} {
		t.Run(fmt.Sprintf("runs %t", runs), func(t *testing.T) {
			steps := &fakeSteps{}
			harness(t, steps, func(w *Workers, cache *fakeCache) {
				cache.runs = runs
				ended := pod(30)
				ended.Status.Phase = v1.PodSucceeded
				w.Update(Update{Type: Create, Pod: ended})
				if runs {
					expect(t, steps, "terminating", "terminated")
				} else {
					expect(t, steps, "terminated")
				}
			})
		})
	}
}

func TestPodWantedAgainUnderItsUIDStartsAfterItFinished(t *testing.T) {
	steps := &fakeSteps{}
	steps.terminating = func(context.Context, time.Time) error { time.Sleep(5 * time.Second); return nil }
	harness(t, steps, func(w *Workers, _ *fakeCache) {
		desired := map[types.UID]struct{}{"u1": {}}
		w.Update(Update{Type: Create, Pod: pod(30)})
		synctest.Wait()
		w.Update(Update{Type: Change, Pod: deleted(30, 30, time.Now())})
		synctest.Wait()
		w.Update(Update{Type: Create, Pod: pod(30)})
		if again := w.Forget(desired); len(again) != 0 {
			t.Errorf("Forget = %v while the old one runs", again)
		}
		time.Sleep(6 * time.Second)
		if again := w.Forget(desired); !slices.Equal(again, []types.UID{"u1"}) || w.Known("u1") {
			t.Errorf("Forget = %v, want the pod to be created anew", again)
		}
	})
}

func TestKillAndWait(t *testing.T) {
	t.Run("returns when nothing runs", func(t *testing.T) {
		steps := &fakeSteps{terminating: func(context.Context, time.Time) error { time.Sleep(3 * time.Second); return nil }}
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			w := New(ctx, Options{Steps: steps, Cache: &fakeCache{}, Clock: clock.RealClock{}})
			w.Update(Update{Type: Create, Pod: pod(30)})
			begin := time.Now()
			for range 2 { // the second time it has ended already
				if err := w.KillAndWait(t.Context(), pod(30), time.Second); err != nil || time.Since(begin) != 3*time.Second {
					t.Errorf("KillAndWait = %v after %s", err, time.Since(begin))
				}
			}
			cancel()
			w.Wait()
		})
	})
	t.Run("says when it takes too long", func(t *testing.T) {
		steps := &fakeSteps{terminating: func(ctx context.Context, _ time.Time) error { <-ctx.Done(); return ctx.Err() }}
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			var warned []string
			w := New(ctx, Options{
				Steps: steps, Cache: &fakeCache{}, Clock: clock.RealClock{},
				Warn: func(_ *v1.Pod, reason, _ string) { warned = append(warned, reason) },
			})
			w.Update(Update{Type: Create, Pod: pod(30)})
			synctest.Wait()
			begin := time.Now()
			err := w.KillAndWait(t.Context(), pod(30), 20*time.Second)
			if !errdefs.IsDeadlineExceeded(err) || time.Since(begin) != 30*time.Second || !slices.Equal(warned, []string{"ExceededGracePeriod"}) {
				t.Errorf("KillAndWait = %v after %s with events %v", err, time.Since(begin), warned)
			}
			cancel()
			w.Wait()
		})
	})
}

func TestWhatATerminationHasSeenIsNotLookedAtAgain(t *testing.T) {
	failures := 1
	steps := &fakeSteps{terminating: func(context.Context, time.Time) error {
		time.Sleep(3 * time.Second)
		if failures--; failures >= 0 {
			return errors.New("runtime says no")
		}
		return nil
	}}
	harness(t, steps, func(w *Workers, cache *fakeCache) {
		begin := time.Now()
		w.Update(Update{Type: Kill, Pod: pod(30)})
		time.Sleep(time.Minute)
		expect(t, steps, "terminating", "terminating", "terminated")
		failed := begin.Add(3 * time.Second)
		if len(cache.asked) != 3 || !cache.asked[0].IsZero() || !cache.asked[1].Equal(failed) || !cache.asked[2].Equal(failed) {
			t.Errorf("asked for views newer than %v, want any and then twice one newer than the failure", cache.asked)
		}
	})
}
