// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/tombolo-dev/tombolo/cri"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ended(id string, started, finished time.Time) *cri.ContainerStatus {
	return &cri.ContainerStatus{ID: id, State: cri.ContainerExited, StartedAt: started, FinishedAt: finished}
}

func TestEndedAtIsMeasuredByOurClock(t *testing.T) {
	host := noon.Add(-time.Hour) // the host's clock is an hour behind
	for _, tc := range []struct {
		name    string
		record  *cri.ContainerStatus
		started time.Time
		now     time.Time
		offset  time.Duration
		want    time.Time
	}{
		{"started by us", ended("a", host, host.Add(7*time.Second)), noon, noon.Add(9 * time.Second), 0, noon.Add(7 * time.Second)},
		{"could not be started", ended("a", time.Time{}, host), noon, noon.Add(9 * time.Second), 0, noon},
		{"clock was set back during the run", ended("a", host, host.Add(-time.Minute)), noon, noon.Add(9 * time.Second), 0, noon},
		{"clock was set forward during the run", ended("a", host, host.Add(time.Hour)), noon, noon.Add(9 * time.Second), 0, noon.Add(9 * time.Second)},
		{"started by another process", ended("a", host, host.Add(7*time.Second)), time.Time{}, noon, 0, host.Add(7 * time.Second)},
		{"started by another process, host behind as measured", ended("a", host.Add(-time.Minute), host.Add(-7*time.Second)), time.Time{}, noon, -time.Hour, noon.Add(-7 * time.Second)},
		{"started by another process, host ahead", ended("a", noon, noon.Add(time.Hour)), time.Time{}, noon, 0, noon},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := endedAt(tc.record, tc.started, tc.now, tc.offset); !got.Equal(tc.want) {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// loopTest crashes one container again and again.
type loopTest struct {
	clock *clocktesting.FakeClock
	loop  *crashLoop
	pod   *v1.Pod
	skew  time.Duration
	n     int
	last  *cri.ContainerStatus
}

func newLoopTest(skew time.Duration) *loopTest {
	clk := clocktesting.NewFakeClock(noon)
	return &loopTest{clock: clk, loop: newCrashLoop(clk, nil), pod: testPod(v1.RestartPolicyAlways, "web"), skew: skew}
}

func (l *loopTest) container() *v1.Container { return &l.pod.Spec.Containers[0] }

// run starts the container, which ends after the time.
func (l *loopTest) run(lasts time.Duration) {
	l.n++
	id := string(rune('a' + l.n))
	l.loop.started(l.pod.UID, "web", id)
	begin := l.clock.Now().Add(l.skew)
	l.clock.Step(lasts)
	l.last = ended(id, begin, begin.Add(lasts))
}

// wait returns how long the container has to wait until it may start.
func (l *loopTest) wait(t *testing.T) time.Duration {
	t.Helper()
	begin := l.clock.Now()
	until, _, ok := l.loop.admit(l.pod, l.container(), l.last)
	for !ok {
		left := until.Sub(l.clock.Now())
		if left <= 0 {
			t.Fatalf("must wait until %s, which is past", until)
		}
		l.clock.Step(left - time.Nanosecond)
		if again, _, ok := l.loop.admit(l.pod, l.container(), l.last); ok || !again.Equal(until) {
			t.Fatalf("just before its time: may start %t, until %s instead of %s", ok, again, until)
		}
		l.clock.Step(time.Nanosecond)
		until, _, ok = l.loop.admit(l.pod, l.container(), l.last)
	}
	return l.clock.Since(begin)
}

func TestBackoffDoublesToItsCapWhateverTheHostsClock(t *testing.T) {
	for _, skew := range []time.Duration{0, time.Hour, -time.Hour} {
		t.Run(skew.String(), func(t *testing.T) {
			l := newLoopTest(skew)
			for i, want := range []int{0, 10, 20, 40, 80, 160, 300, 300, 300} {
				l.run(time.Second)
				if got := l.wait(t); got != time.Duration(want)*time.Second {
					t.Errorf("restart %d waits %s, want %ds", i+1, got, want)
				}
			}
		})
	}
}

func TestBackoffCountsFromTheEnd(t *testing.T) {
	l := newLoopTest(0)
	l.run(time.Second)
	l.wait(t)
	l.run(time.Second)
	l.clock.Step(4 * time.Second) // seen late
	if got := l.wait(t); got != 6*time.Second {
		t.Errorf("waits %s, want the 6s that are left of 10s", got)
	}
}

func TestBackoffStartsAnewAfterALongRun(t *testing.T) {
	for _, tc := range []struct {
		lasts time.Duration
		want  []time.Duration
	}{
		{600 * time.Second, []time.Duration{40 * time.Second, 80 * time.Second}},
		{601 * time.Second, []time.Duration{0, 10 * time.Second}},
	} {
		l := newLoopTest(0)
		for range 3 {
			l.run(time.Second)
			l.wait(t)
		}
		l.run(tc.lasts)
		if got := l.wait(t); got != tc.want[0] {
			t.Errorf("after %s: waits %s, want %s", tc.lasts, got, tc.want[0])
		}
		l.run(time.Second)
		if got := l.wait(t); got != tc.want[1] {
			t.Errorf("and then: waits %s, want %s", got, tc.want[1])
		}
	}
}

func TestBackoffIsResetByWhatMayMendTheContainer(t *testing.T) {
	for name, mend := range map[string]func(c *v1.Container){
		"image": func(c *v1.Container) { c.Image += "-fixed" },
		"resources": func(c *v1.Container) {
			c.Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoopTest(0)
			for range 4 {
				l.run(time.Second)
				l.wait(t)
			}
			l.run(time.Second)
			mend(l.container())
			if got := l.wait(t); got != 0 {
				t.Errorf("waits %s, want none", got)
			}
		})
	}
}

func TestBackoffDoesNotMoveWithAClockThatIsAhead(t *testing.T) {
	l := newLoopTest(time.Hour)
	// A process before us started it, so only the host's word is known, which lies in the future.
	l.last = ended("old", noon.Add(time.Hour), noon.Add(time.Hour+time.Second))
	if _, _, ok := l.loop.admit(l.pod, l.container(), l.last); !ok {
		t.Fatal("the first restart must be immediate")
	}
	// It could not be created, so the same record is still the newest.
	if got := l.wait(t); got != 10*time.Second {
		t.Errorf("waits %s, want 10s", got)
	}
}

func TestContainersAndPodsHaveBackoffsOfTheirOwn(t *testing.T) {
	l := newLoopTest(0)
	l.run(time.Second)
	l.wait(t)
	l.run(time.Second)
	other := testPod(v1.RestartPolicyAlways, "web")
	other.UID = "uid-2"
	side := testPod(v1.RestartPolicyAlways, "web,side")
	if _, _, ok := l.loop.admit(other, &other.Spec.Containers[0], ended("x", l.clock.Now(), l.clock.Now())); !ok {
		t.Error("another pod of the same name has to wait")
	}
	if _, _, ok := l.loop.admit(side, &side.Spec.Containers[1], ended("y", l.clock.Now(), l.clock.Now())); !ok {
		t.Error("another container of the pod has to wait")
	}
	l.loop.forget(l.pod.UID)
	if _, _, ok := l.loop.admit(l.pod, l.container(), l.last); !ok {
		t.Error("a forgotten pod has to wait")
	}
	if len(l.loop.pods) != 2 { // the other pod, and this one again
		t.Errorf("%d pods are remembered, want 2", len(l.loop.pods))
	}
}

func TestRestartNumberNeverFalls(t *testing.T) {
	record := func(state cri.ContainerState, n int32) *cri.ContainerStatus {
		return &cri.ContainerStatus{State: state, RestartCount: n}
	}
	for _, tc := range []struct {
		name            string
		newest          *cri.ContainerStatus
		published, logs int32
		needLogs        bool
		want            int32
	}{
		{"first start", nil, 0, 0, true, 0},
		{"restart", record(cri.ContainerExited, 4), 4, 0, false, 5},
		{"restart after an unknown end", record(cri.ContainerUnknown, 4), 4, 0, false, 5},
		{"status not published yet", record(cri.ContainerExited, 4), 3, 0, false, 5},
		{"created and never started", record(cri.ContainerCreated, 4), 4, 0, false, 4},
		{"records lost, logs kept", nil, 5, 6, true, 6},
		{"records and logs lost", nil, 5, 0, true, 5},
		{"records and status lost", nil, 0, 6, true, 6},
		{"newest record lost", record(cri.ContainerExited, 3), 5, 6, true, 6},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := logsNeeded(tc.newest, tc.published); got != tc.needLogs {
				t.Errorf("logs needed: %t, want %t", got, tc.needLogs)
			}
			if got := restartNumber(tc.newest, tc.published, tc.logs); got != tc.want {
				t.Errorf("number %d, want %d", got, tc.want)
			}
		})
	}
}
