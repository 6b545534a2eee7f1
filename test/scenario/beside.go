// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/test/fakecri"
)

// canary is the UID of the pod that nothing is done to.
const canary types.UID = "canary"

// neighbours is how many pods have trouble beside the canary.
const neighbours = 6

// lateMost is how much later than without trouble something may happen to the canary.
const lateMost = time.Second

// beside checks I6: a canary lives the same life twice, alone with calm pods and beside pods each of whose calls may hang
// or be slow, and nothing happens to it later than in the calm life.
func beside(t *testing.T, seed uint64, o runOptions) (result Result) {
	t.Helper()
	var calm, troubled []Event
	synctest.Test(t, func(t *testing.T) { calm, _ = live(t, seed, false, o) })
	synctest.Test(t, func(t *testing.T) { troubled, result.Trace = live(t, seed, true, o) })
	late := times(troubled)
	for text, alone := range times(calm) {
		for i, at := range alone {
			switch {
			case i >= len(late[text]):
				result.Violations = append(result.Violations, Violation{"I6", at, fmt.Sprintf("%q does not happen", text)})
			case late[text][i] > at+lateMost:
				result.Violations = append(result.Violations, Violation{
					"I6", late[text][i], fmt.Sprintf("%q happened at %s where no pod has trouble", text, at),
				})
			}
		}
	}
	return result
}

// times are when each thing happened.
func times(events []Event) map[string][]time.Duration {
	out := map[string][]time.Duration{}
	for _, e := range events {
		out[e.Text] = append(out[e.Text], e.At)
	}
	return out
}

// live is one life of the canary. It returns what happened to it and the whole trace.
func live(t *testing.T, seed uint64, trouble bool, o runOptions) ([]Event, string) {
	d := drawer{rand.New(rand.NewPCG(seed, 6)), &History{Seed: seed}} //nolint:gosec // a test, to be repeated.
	w := newWorld(t)
	w.mutate = o.mutate
	w.Host.watches = d.IntN(2) == 0
	p := &player{World: w, heals: map[string]func(){}}
	w.StartNode()
	for i := range neighbours {
		d.neighbour(p, types.UID(fmt.Sprintf("slow%d", i)), trouble)
	}
	d.canaryLife(p)
	p.close()
	var events []Event
	for _, e := range w.trace.Events() {
		if e.UID == canary && (e.Kind == "started" || e.Kind == "ended" || e.Kind == "gone" || strings.HasPrefix(e.Text, "status canary ready")) {
			events = append(events, e)
		}
	}
	return events, w.trace.String()
}

// neighbour makes a pod. Its calls go wrong from its beginning, or, if it runs first, from then on.
func (d drawer) neighbour(p *player, uid types.UID, trouble bool) {
	pod := plainPod(uid)
	hookOf(pod).PreStop = execHook("bye")
	methods := []string{
		"RunPodSandbox", "CreateContainer", "StartContainer", "StopContainer", "StopPodSandbox", "ContainerStatus",
		"PodSandboxStatus", "RunHook", "EnsurePod", "EnsureTerminationLog", "PatchPodStatus", "GetPod", "PullImage",
	}
	method, hang, delay, first := methods[d.IntN(len(methods))], d.chance(2), d.lasting(), d.chance(2)
	pod.Spec.Containers[0].Image = fmt.Sprintf("registry.test/%s:1", uid)
	upset := func() {
		if !trouble {
			return
		}
		f := Fault{Method: method, UID: uid, Hang: hang, Delay: delay}
		switch method {
		case "RunHook", "EnsurePod", "EnsureTerminationLog":
			p.heals[string(uid)] = p.Host.inject(f)
		case "PatchPodStatus", "GetPod":
			p.heals[string(uid)] = p.API.inject(f)
		case "PullImage":
			p.heals[string(uid)] = p.Runtime.Inject(fakecri.Fault{
				Method: method, Selector: fakecri.Selector{Image: pod.Spec.Containers[0].Image}, Hang: hang, Delay: delay,
			}).Remove
		default:
			p.heals[string(uid)] = p.Runtime.Inject(fakecri.Fault{
				Method: method, Selector: fakecri.Selector{UID: uid}, Hang: hang, Delay: delay,
			}).Remove
		}
	}
	if first {
		upset()
	}
	p.create(pod)
	time.Sleep(2 * time.Second)
	upset()
	if d.chance(2) {
		p.API.Delete(nameOf(pod), 20*time.Second)
	}
}

// canaryLife is a start, an end that is followed by another start, and a deletion, with pauses in between.
func (d drawer) canaryLife(p *player) {
	pod := plainPod(canary)
	p.create(pod)
	time.Sleep(d.pause())
	if c, ok := p.Runtime.Newest(canary, "main"); ok && c.Alive {
		p.Runtime.Exit(c.ID, 1)
	}
	time.Sleep(d.pause())
	p.API.Delete(nameOf(pod), 5*time.Second)
	time.Sleep(30 * time.Second)
}

func (d drawer) pause() time.Duration { return 5*time.Second + d.within(time.Minute) }

// plainPod is a pod of one container that always runs.
func plainPod(uid types.UID) *v1.Pod {
	p := &v1.Pod{}
	p.Namespace, p.Name, p.UID = podName("").Namespace, string(uid), uid
	p.Spec.Containers = []v1.Container{{Name: "main"}}
	fillDefaults(p)
	return p
}
