// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/cri"
)

// A plain pod's life as the engine tells it, every step accepted before the next: the most writes that it can take.
func TestPlainPodLifeTakesAtMostSixWrites(t *testing.T) {
	pod := podNamed("web")
	pod.Spec.Containers = []v1.Container{{Name: "a"}}
	run(t, newFakeAPI(pod), func(t *testing.T, b *bench) {
		facts := func(ready bool, records ...cri.ContainerStatus) *cri.PodStatus {
			return &cri.PodStatus{Sandboxes: []cri.SandboxStatus{{ID: "sb", Ready: ready}}, Containers: records}
		}
		tell := func(pod *v1.Pod, rs *cri.PodStatus, terminal bool) {
			in := Input{Pod: pod, Runtime: rs, Terminal: terminal, Now: b.clock.Now()}
			if last, ok := b.Get(pod.UID); ok {
				in.Cached = &last
			}
			b.Set(pod, Generate(in))
			pass(0)
			if now := b.api.read("web"); now != nil {
				b.Observe(now)
			}
			pass(0)
		}
		b.runs.Store(true)
		tell(pod, &cri.PodStatus{}, false)
		last, _ := b.Get(pod.UID)
		b.SetSoon(pod, WithSandbox(pod, last, b.clock.Now()))
		pass(0)
		tell(pod, facts(true, rec(0, cri.ContainerCreated, 1)), false)
		tell(pod, facts(true, rec(0, cri.ContainerRunning, 1)), false)
		pass(time.Minute)
		gone := b.api.put(deleting(b.api.read("web")))
		b.Observe(gone)
		tell(gone, facts(true, rec(0, cri.ContainerRunning, 1)), false)
		b.runs.Store(false)
		tell(gone, facts(false, exited(0, 0, 1)), true)
		b.Finish(gone)
		pass(time.Minute)
		writes := 0
		calls := b.api.taken()
		for _, call := range calls {
			if !strings.HasPrefix(call, "get") {
				writes++
			}
		}
		if writes > 6 || calls[len(calls)-1] != "delete web" {
			t.Errorf("%d writes: %v", writes, calls)
		}
	})
}
