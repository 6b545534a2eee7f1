// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

// addOp draws one thing that happens, and, if it is a trouble that lasts, its end.
func (d drawer) addOp() {
	ops := []func(drawer, time.Duration){
		drawer.gracefulDelete, drawer.gracefulDelete, drawer.forceDelete, drawer.recreate, drawer.newImage,
		drawer.containerExit, drawer.containerExit, drawer.lose, drawer.sandboxDeath, drawer.cut, drawer.hostDeath,
		drawer.nodeDeath, drawer.nodeDeath, drawer.trap, drawer.trap, drawer.runtimeFault, drawer.runtimeFault,
		drawer.runtimeFault, drawer.hostFault, drawer.apiFault, drawer.apiDown, drawer.silence, drawer.emptyLists,
		drawer.touch, drawer.probeTrouble, drawer.probeTrouble, drawer.debug, drawer.clockStep, drawer.runtimeRestart, drawer.recordsVanish,
	}
	ops[d.IntN(len(ops))](d, d.within(busy))
}

// lasting is how long a trouble lasts.
func (d drawer) lasting() time.Duration {
	return d.within([]time.Duration{2 * time.Second, 15 * time.Second, 90 * time.Second}[d.IntN(3)])
}

func (d drawer) gracefulDelete(at time.Duration) {
	p, grace := d.pod(), time.Duration(1+d.IntN(40))*time.Second
	d.op(at, fmt.Sprintf("delete %s %s", p.Name, grace), func(pl *player) { pl.API.Delete(nameOf(p), grace) })
}

func (d drawer) forceDelete(at time.Duration) {
	p := d.pod()
	d.op(at, "force delete "+p.Name, func(pl *player) { pl.API.Delete(nameOf(p), 0) })
}

// recreate makes another pod of the same name, by force if the old one is still there.
func (d drawer) recreate(at time.Duration) {
	d.addPod(d.pod().Name, len(d.h.Pods)+1, at)
}

func (d drawer) newImage(at time.Duration) {
	p, image := d.pod(), fmt.Sprintf("busybox:%d", 2+d.IntN(3))
	d.op(at, "image of "+p.Name, func(pl *player) {
		pl.API.Edit(nameOf(p), func(p *v1.Pod) { p.Spec.Containers[0].Image = image })
	})
}

// touch changes something that asks for nothing.
func (d drawer) touch(at time.Duration) {
	p, value := d.pod(), fmt.Sprint(d.IntN(1000))
	d.op(at, "label of "+p.Name, func(pl *player) {
		pl.API.Edit(nameOf(p), func(p *v1.Pod) { p.Labels = map[string]string{"touched": value} })
	})
}

// some picks one of the containers that live, by a number drawn before.
func (p *player) some(n int) (fakecri.Container, bool) {
	var alive []fakecri.Container
	for _, c := range p.Runtime.Containers("") {
		if c.Alive {
			alive = append(alive, c)
		}
	}
	if len(alive) == 0 {
		return fakecri.Container{}, false
	}
	return alive[n%len(alive)], true
}

func (d drawer) containerExit(at time.Duration) {
	n, code := d.IntN(100), []int32{0, 1, 137}[d.IntN(3)]
	d.op(at, "a container exits", func(pl *player) {
		if c, ok := pl.some(n); ok {
			pl.Runtime.Exit(c.ID, code)
		}
	})
}

func (d drawer) lose(at time.Duration) {
	n := d.IntN(100)
	d.op(at, "a container is lost", func(pl *player) {
		// Nothing is ever done about an ephemeral container.
		if c, ok := pl.some(n); ok && c.Name != debugContainer {
			pl.excuses.lose(c.UID, c.ID)
			pl.note(fmt.Sprintf("lost %s/%s", c.UID, c.Name))
			pl.Runtime.Lose(c.ID)
		}
	})
}

func (d drawer) sandboxDeath(at time.Duration) {
	p := d.pod()
	d.op(at, "the sandbox of "+string(p.UID)+" dies", func(pl *player) {
		for _, s := range pl.Runtime.Sandboxes(p.UID) {
			if s.Ready {
				pl.note("sandbox of " + string(p.UID) + " dies")
				pl.Runtime.KillSandbox(s.ID)
			}
		}
	})
}

func (d drawer) cut(at time.Duration) {
	d.op(at, "cut", func(pl *player) { pl.Cut() })
	d.op(at+d.lasting(), "mend", func(pl *player) { pl.Mend() })
}

func (d drawer) hostDeath(at time.Duration) {
	d.op(at, "host dies", func(pl *player) { pl.KillHost() })
	d.op(at+d.lasting(), "mend", func(pl *player) { pl.Mend() })
}

func (d drawer) nodeDeath(at time.Duration) {
	d.op(at, "node dies", func(pl *player) { pl.KillNode() })
	d.op(at+d.lasting(), "node starts", func(pl *player) { pl.StartNode() })
}

func (d drawer) trap(at time.Duration) {
	methods := []string{
		"RunPodSandbox", "CreateContainer", "StartContainer", "StopContainer", "StopPodSandbox", "RemoveContainer", "RunHook",
		"PatchPodStatus", "DeletePod", "RemovePod", "PullImage", "EnsurePod",
	}
	t, pause := Trap{Method: methods[d.IntN(len(methods))], After: d.chance(2)}, d.within(10*time.Second)
	d.op(at, fmt.Sprintf("trap %+v", t), func(pl *player) { pl.SetTrap(t, pause) })
}

var errBroken = errors.New("it is broken")

func (d drawer) runtimeFault(at time.Duration) {
	methods := []string{
		"RunPodSandbox", "CreateContainer", "StartContainer", "StopContainer", "StopPodSandbox", "RemoveContainer",
		"RemovePodSandbox", "ContainerStatus", "PodSandboxStatus", "ListContainers", "ListPodSandbox", "PullImage", "ImageStatus",
	}
	f := fakecri.Fault{Method: methods[d.IntN(len(methods))], Times: 1 + d.IntN(3)}
	if d.chance(2) {
		f.Selector.UID = d.pod().UID
	}
	switch d.IntN(5) {
	case 0:
		f.Err = errBroken
	case 1:
		f.Err = errdefs.ErrUnavailable
	case 2:
		f.Lost = true
	case 3:
		f.Hang = true
	case 4:
		f.Delay = d.lasting()
	}
	d.lastingFault(at, blindHost, fmt.Sprintf("runtime fault %+v", f), func(pl *player) func() { return pl.Runtime.Inject(f).Remove })
}

func (d drawer) lastingFault(at time.Duration, side, name string, begin func(*player) func()) {
	var end func()
	key := fmt.Sprintf("%s %d", name, len(d.h.Ops))
	d.op(at, name, func(pl *player) {
		pl.blind(side, key, "fault "+name)
		undo := begin(pl)
		end = func() {
			undo()
			pl.sees(side, key, "fault ends "+name)
		}
		pl.heals[key] = end
	})
	d.op(at+d.lasting(), "end of "+name, func(pl *player) {
		if pl.heals[key] != nil {
			end()
			delete(pl.heals, key)
		}
	})
}

// hostFault breaks a method of the host. A hook that hangs may be given up, so it is let off.
func (d drawer) hostFault(at time.Duration) {
	methods := []string{"RunHook", "RunHook", "EnsurePod", "RemovePod", "ListPods", "EnsureTerminationLog", "EnsureHostsFile", "ReadTail", "RestartCount", "WatchPods", "Probe"}
	f := Fault{Method: methods[d.IntN(len(methods))], Times: 1 + d.IntN(3)}
	d.breakCall(&f)
	if f.Method == "RunHook" {
		f.Hang, f.Delay = false, 0
		if !f.Lost {
			f.Err = errdefs.ErrUnavailable
		}
	}
	d.lastingFault(at, blindHost, fmt.Sprintf("host fault %+v", f), func(pl *player) func() { return pl.Host.inject(f) })
}

func (d drawer) breakCall(f *Fault) {
	switch d.IntN(4) {
	case 0:
		f.Err = []error{errdefs.ErrUnavailable, context.DeadlineExceeded}[d.IntN(2)]
	case 1:
		f.Lost = true
	case 2:
		f.Hang = true
	case 3:
		f.Delay = d.lasting()
	}
}

func (d drawer) apiFault(at time.Duration) {
	methods := []string{"GetPod", "PatchPodStatus", "DeletePod", "Watch"}
	f := Fault{Method: methods[d.IntN(len(methods))], Times: 1 + d.IntN(5)}
	d.breakCall(&f)
	d.lastingFault(at, blindAPI, fmt.Sprintf("API fault %+v", f), func(pl *player) func() { return pl.API.inject(f) })
}

func (d drawer) apiDown(at time.Duration) {
	d.op(at, "API down", func(pl *player) { pl.API.Down() })
	d.op(at+d.lasting(), "API up", func(pl *player) { pl.API.Up() })
}

func (d drawer) silence(at time.Duration) {
	d.op(at, "watch silent", func(pl *player) { pl.API.SetGap(true) })
	d.op(at+d.lasting(), "watch on", func(pl *player) { pl.API.SetGap(false) })
}

// emptyLists restarts the node while the API shows nothing.
func (d drawer) emptyLists(at time.Duration) {
	d.op(at, "empty lists", func(pl *player) {
		pl.API.SetHidden(true)
		pl.KillNode()
		pl.StartNode()
	})
	d.op(at+d.lasting(), "full lists", func(pl *player) { pl.API.SetHidden(false) })
}

// probeTrouble lets probes fail for a while, for which their container may be restarted unless it is only its readiness.
func (d drawer) probeTrouble(at time.Duration) {
	p, kind := d.pod(), []string{"readiness", "liveness", "startup"}[d.IntN(3)]
	path, key := probePath(p, kind), fmt.Sprintf("probe %d", len(d.h.Ops))
	tell := func(outcome host.ProbeOutcome) func(*player) {
		return func(pl *player) {
			pl.note(fmt.Sprintf("probe %s of %s: %v", kind, p.UID, outcome == host.ProbeSuccess))
			pl.Host.OnProbe(path, func(int) host.ProbeResult { return host.ProbeResult{Outcome: outcome, Output: "refused"} })
		}
	}
	well := tell(host.ProbeSuccess)
	d.op(at, kind+" of "+string(p.UID)+" fails", func(pl *player) {
		if kind != "readiness" {
			pl.excuses.container(p.UID, p.Spec.Containers[0].Name)
			if p.Spec.RestartPolicy == v1.RestartPolicyNever {
				pl.excuses.mayEnd(p.UID)
			}
		}
		tell(host.ProbeFailure)(pl)
		pl.heals[key] = func() { well(pl) }
	})
	d.op(at+d.lasting(), kind+" of "+string(p.UID)+" is well", func(pl *player) {
		delete(pl.heals, key)
		well(pl)
	})
}

// debugContainer is the name of the ephemeral container of histories.
const debugContainer = "debug"

// debug adds an ephemeral container, once.
func (d drawer) debug(at time.Duration) {
	p := d.pod()
	d.op(at, "debug "+string(p.UID), func(pl *player) {
		stored := pl.API.Pod(nameOf(p))
		if stored == nil || stored.UID != p.UID || len(stored.Spec.EphemeralContainers) > 0 {
			return
		}
		pl.note("debug " + string(p.UID))
		pl.API.Edit(nameOf(p), func(p *v1.Pod) {
			p.Spec.EphemeralContainers = make([]v1.EphemeralContainer, 1)
			p.Spec.EphemeralContainers[0].Name = debugContainer
			fillDefaults(p)
		})
	})
}

// clockStep makes the host's clock jump.
func (d drawer) clockStep(at time.Duration) {
	skew := time.Duration(d.Int64N(int64(2*time.Hour))) - time.Hour
	d.op(at, "clock step", func(pl *player) {
		pl.note(fmt.Sprintf("clock of the host is wrong by %s", skew))
		pl.Runtime.SetSkew(skew)
	})
}

// runtimeRestart makes the runtime, and nothing else, out of reach for a while.
func (d drawer) runtimeRestart(at time.Duration) {
	d.op(at, "runtime stops", func(pl *player) {
		pl.blind(blindHost, "runtime", "runtime stops")
		pl.Runtime.Cut()
	})
	d.op(at+d.within(30*time.Second), "runtime starts", func(pl *player) {
		pl.Runtime.Mend()
		pl.sees(blindHost, "runtime", "runtime starts")
	})
}

// recordsVanish removes the records of all ended containers of a pod.
func (d drawer) recordsVanish(at time.Duration) {
	p := d.pod()
	d.op(at, "records of "+string(p.UID)+" vanish", func(pl *player) {
		for _, c := range pl.Runtime.Containers(p.UID) {
			if !c.Alive && !c.FinishedAt.IsZero() {
				pl.Runtime.ForgetContainer(c.ID)
			}
		}
	})
}

// shuffleSeed spreads neighbouring numbers.
func shuffleSeed(n uint64) uint64 { return rand.New(rand.NewPCG(n, 7)).Uint64() } //nolint:gosec // a test.
