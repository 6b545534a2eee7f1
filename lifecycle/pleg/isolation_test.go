// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package pleg

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/test/fakecri"
)

func TestHungContainerDelaysNobodyElse(t *testing.T) {
	observed(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime) {
		slow := rt.Seed(fakecri.Pod{UID: "slow", Name: "slow", Containers: []string{"main"}})
		for i := range 20 {
			rt.Seed(fakecri.Pod{UID: types.UID(fmt.Sprint(i)), Name: fmt.Sprint("p", i), Containers: []string{"main"}})
		}
		relists(1)
		drain(p)
		good, _ := p.Get("slow")
		hang := rt.Inject(fakecri.Fault{Method: "ContainerStatus", Hang: true, Selector: fakecri.Selector{UID: "slow"}})
		rt.Exit(slow.Containers["main"], 1)

		for i := range 20 {
			uid := types.UID(fmt.Sprint(i))
			main, _ := rt.Newest(uid, "main")
			rt.Exit(main.ID, 1)
			relists(1)
			wantEvents(t, p, Event{UID: uid, Type: ContainerDied, ContainerID: main.ID})
		}
		if err := p.Healthy(); err != nil {
			t.Errorf("Healthy = %v", err)
		}
		if n := testutil.ToFloat64(p.metrics.stale); n != 1 {
			t.Errorf("%v stale pods, want 1", n)
		}
		if st, err := p.Get("slow"); st != good || err != nil {
			t.Errorf("Get of the hung pod = %+v, %v, want the last observation", st, err)
		}

		time.Sleep(DefaultInspectTimeout)
		synctest.Wait()
		if st, err := p.Get("slow"); st != good || !errdefs.IsDeadlineExceeded(err) {
			t.Errorf("Get of the hung pod = %+v, %v, want the last observation and DeadlineExceeded", st, err)
		}
		hang.Remove()
		relists(2)
		wantEvents(t, p, Event{UID: "slow", Type: ContainerDied, ContainerID: slow.Containers["main"]})
	})
}

func TestManyHungPodsDoNotUseUpTheInspections(t *testing.T) {
	observed(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime) {
		rt.Inject(fakecri.Fault{Method: "ContainerStatus", Hang: true, Selector: fakecri.Selector{Container: "hung"}})
		for i := range 3 * inspectParallel {
			rt.Seed(fakecri.Pod{UID: types.UID(fmt.Sprint("hung", i)), Name: fmt.Sprint("hung", i), Containers: []string{"hung"}})
		}
		relists(1)
		rt.Seed(fakecri.Pod{UID: "good", Name: "good", Containers: []string{"main"}})
		relists(5)
		if got := len(drain(p)); got != 2 {
			t.Errorf("%d events, want those of the good pod's sandbox and container", got)
		}
	})
}

func TestInspectionsAreBounded(t *testing.T) {
	observed(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime) {
		rt.Inject(fakecri.Fault{Method: "PodSandboxStatus", Delay: slowAfter / 2})
		for i := range 2 * inspectParallel {
			rt.Seed(fakecri.Pod{UID: types.UID(fmt.Sprint(i)), Name: fmt.Sprint(i)})
		}
		relists(1)
		if n := len(rt.Calls("PodSandboxStatus")); n != inspectParallel {
			t.Errorf("%d inspections at once, want %d", n, inspectParallel)
		}
		relists(1)
		if n := len(drain(p)); n != 2*inspectParallel {
			t.Errorf("%d pods told, want all %d", n, 2*inspectParallel)
		}
	})
}

func TestHungListDoesNotStopRun(t *testing.T) {
	observed(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime) {
		rt.Inject(fakecri.Fault{Method: "ListPodSandbox", Hang: true})
		relists(2)
		// The end of the test cancels Run and waits for it.
		if _, _, ok := p.Observation(); !ok {
			t.Error("the observation before the hang is lost")
		}
	})
}

func TestEventsBeyondCapacityAreDroppedAndCounted(t *testing.T) {
	observed(t, func(t *testing.T, p *PLEG, rt *fakecri.Runtime) {
		const pods = eventCapacity/2 + 5
		for i := range pods {
			rt.Seed(fakecri.Pod{UID: types.UID(fmt.Sprint(i)), Name: fmt.Sprint(i), Containers: []string{"main"}})
		}
		relists(2)
		if n := testutil.ToFloat64(p.metrics.discarded); n != 10 {
			t.Errorf("%v events dropped, want 10", n)
		}
		if n := len(drain(p)); n != eventCapacity {
			t.Errorf("%d events delivered, want %d", n, eventCapacity)
		}
		if n := testutil.ToFloat64(p.metrics.pods); n != pods {
			t.Errorf("%v running pods, want %d", n, pods)
		}
		if n := testutil.ToFloat64(p.metrics.containers.WithLabelValues("running")); n != pods {
			t.Errorf("%v running containers, want %d", n, pods)
		}
	})
}
