// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

func TestWhatIsSetSoonIsWrittenWithTheNextStatus(t *testing.T) {
	run(t, newFakeAPI(podNamed("web")), func(t *testing.T, b *bench) {
		pod := b.api.read("web")
		b.SetSoon(pod, v1.PodStatus{Phase: v1.PodPending, PodIP: "10.0.0.1"})
		pass(soon - time.Millisecond)
		expectCalls(t, b)
		b.Set(pod, v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.0.0.1"})
		pass(0)
		expectPhase(t, b, "web", v1.PodRunning)
		pass(time.Minute)
		expectCalls(t, b, "patch web")
	})
}

func TestWhatIsSetSoonIsWrittenAfterAWhileIfNothingFollows(t *testing.T) {
	run(t, newFakeAPI(podNamed("web")), func(t *testing.T, b *bench) {
		b.SetSoon(b.api.read("web"), inPhase(v1.PodRunning))
		pass(soon)
		expectPhase(t, b, "web", v1.PodRunning)
	})
}

func TestWhatIsSetSoonDuringAWriteIsWrittenAfterAWhile(t *testing.T) {
	run(t, newFakeAPI(podNamed("web")), func(t *testing.T, b *bench) {
		pod, held := b.api.read("web"), make(chan struct{})
		b.api.failNext("patch web", fail{held: held})
		b.Set(pod, v1.PodStatus{Phase: v1.PodPending, PodIP: "10.0.0.1"})
		pass(0)
		b.SetSoon(pod, v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.0.0.1"})
		close(held)
		pass(soon - time.Millisecond)
		expectCalls(t, b, "patch web")
		pass(time.Millisecond)
		expectCalls(t, b, "patch web")
		expectPhase(t, b, "web", v1.PodRunning)
	})
}

func TestWhatIsSetSoonOutlivesAFailure(t *testing.T) {
	run(t, newFakeAPI(podNamed("web")), func(t *testing.T, b *bench) {
		b.api.failNext("patch web", fail{}, fail{}, fail{})
		b.SetSoon(b.api.read("web"), inPhase(v1.PodRunning))
		pass(time.Minute)
		expectPhase(t, b, "web", v1.PodRunning)
	})
}
