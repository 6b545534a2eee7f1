// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/test/fakecri"
)

// gateTest notes who is let in, and when.
type gateTest struct {
	gate  *gate
	begin time.Time
	wg    sync.WaitGroup
	mu    sync.Mutex
	log   []string
}

func newGateTest(size int) *gateTest {
	return &gateTest{gate: newGate(clock.RealClock{}, size), begin: time.Now()}
}

// start enters in its own goroutine and stays for the time. Calls are in order.
func (g *gateTest) start(ctx context.Context, t *turn, name string, stay time.Duration) {
	g.wg.Go(func() {
		err := t.enter(ctx)
		g.mu.Lock()
		entry := fmt.Sprintf("%s@%s", name, time.Since(g.begin))
		if err != nil {
			entry += " " + err.Error()
		}
		g.log = append(g.log, entry)
		g.mu.Unlock()
		if err != nil {
			return
		}
		time.Sleep(stay)
		t.leave()
	})
	synctest.Wait()
}

func (g *gateTest) want(t *testing.T, want ...string) {
	t.Helper()
	g.wg.Wait()
	if diff := cmp.Diff(want, g.log); diff != "" {
		t.Errorf("let in (-want +got):\n%s", diff)
	}
	if len(g.gate.inside)+len(g.gate.begun)+len(g.gate.fresh) != 0 {
		t.Errorf("somebody is left: %v %v %v", g.gate.inside, g.gate.begun, g.gate.fresh)
	}
}

func TestGateLetsInAsManyAsItsSizeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateTest(2)
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			g.start(t.Context(), g.gate.newTurn(), name, time.Second)
		}
		g.wg.Wait()
		slices.Sort(g.log[:2])
		slices.Sort(g.log[2:4])
		g.want(t, "a@0s", "b@0s", "c@1s", "d@1s", "e@2s")
	})
}

func TestGatePrefersWhoHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateTest(1)
		old := g.gate.newTurn()
		g.start(t.Context(), old, "old", 0)
		g.start(t.Context(), g.gate.newTurn(), "a", time.Second)
		g.start(t.Context(), g.gate.newTurn(), "b", time.Second)
		g.start(t.Context(), old, "old again", time.Second)
		g.want(t, "old@0s", "a@0s", "old again@1s", "b@2s")
	})
}

func TestGateDoesNotWaitForAStartThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateTest(1)
		g.start(t.Context(), g.gate.newTurn(), "hangs", time.Hour)
		g.start(t.Context(), g.gate.newTurn(), "a", 20*time.Second)
		g.start(t.Context(), g.gate.newTurn(), "b", time.Second)
		g.want(t, "hangs@0s", "a@15s", "b@30s")
	})
}

func TestGateLetsNotEverybodyInWhereAllStartsTakeLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateTest(2)
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			g.start(t.Context(), g.gate.newTurn(), name, time.Minute)
		}
		g.wg.Wait()
		slices.Sort(g.log[:2])
		g.want(t, "a@0s", "b@0s", "c@15s", "d@30s", "e@45s", "f@1m0s")
	})
}

func TestGateForgetsWhoGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateTest(1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		g.start(t.Context(), g.gate.newTurn(), "a", 2*time.Second)
		g.start(ctx, g.gate.newTurn(), "gives up", time.Second)
		g.start(t.Context(), g.gate.newTurn(), "b", time.Second)
		g.want(t, "a@0s", "gives up@1s context deadline exceeded", "b@2s")
	})
}

func TestGateHasADefaultSizeAndLetsOldPodsPass(t *testing.T) {
	if g := newGate(clock.RealClock{}, 0); g.size != DefaultParallelStarts {
		t.Errorf("size %d", g.size)
	}
	var old *turn
	if err := old.enter(t.Context()); err != nil {
		t.Error(err)
	}
	old.leave()
}

// fill takes every place of the gate for good.
func (b *bench) fill(t *testing.T) {
	t.Helper()
	for range b.syncer.gate.size {
		if err := b.syncer.gate.newTurn().enter(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRestartsNeverQueueBehindNewPods(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "web")
		b.mustSync(t)
		b.exit(t, "web", 1)
		b.fill(t)
		begin := time.Now()
		b.mustSync(t)
		if took := time.Since(begin); took >= time.Second {
			t.Errorf("a restart took %s", took)
		}
	})
}

func TestNewPodsQueueAndGiveUpWhenTheyAreDeleted(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "web")
		b.fill(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if r := b.syncer.Sync(ctx, b.pod, nil); !errors.Is(r.Err, context.DeadlineExceeded) || r.Acted {
			t.Errorf("result %+v", r)
		}
		if n := len(rt.Calls("RunPodSandbox")); n != 0 {
			t.Errorf("%d sandboxes were made", n)
		}
		begin := time.Now()
		b.mustSync(t)
		if took := time.Since(begin); took < 13*time.Second || took > 15*time.Second {
			t.Errorf("a start behind hanging ones took %s", took)
		}
	})
}

func TestGateIsFreeDuringPullsAndHooks(t *testing.T) {
	for name, hang := range map[string]func(b *bench){
		"pull": func(b *bench) { b.images.hang = true },
		"hook": func(b *bench) { b.hooks.plan["web"] = hookPlan{takes: time.Hour} },
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
				b := withHook(t, rt, "web")
				hang(b)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan Result)
				go func() { done <- b.syncer.Sync(ctx, b.pod, nil) }()
				synctest.Wait()
				time.Sleep(time.Second)
				b.syncer.gate.mu.Lock()
				n := len(b.syncer.gate.inside)
				b.syncer.gate.mu.Unlock()
				if n != 0 {
					t.Errorf("%d inside", n)
				}
				if len(rt.Sandboxes(b.pod.UID)) != 1 {
					t.Error("the sandbox is not made")
				}
				cancel()
				<-done
			})
		})
	}
}
