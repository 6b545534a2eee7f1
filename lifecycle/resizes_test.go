// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/test/fakecri"
)

// cpuAndMemory is "cpu memory", which are requested and the limits.
func cpuAndMemory(s string) v1.ResourceRequirements {
	f := strings.Fields(s)
	list := func() v1.ResourceList {
		return v1.ResourceList{v1.ResourceCPU: resource.MustParse(f[0]), v1.ResourceMemory: resource.MustParse(f[1])}
	}
	return v1.ResourceRequirements{Requests: list(), Limits: list()}
}

// sized makes a pod of generation 1 that asks for "cpu memory".
func sized(s string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Generation = 1
		p.Status.QOSClass = v1.PodQOSGuaranteed
		p.Spec.Containers[0].Resources = cpuAndMemory(s)
	}
}

func restartsFor(name v1.ResourceName) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Containers[0].ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: name, RestartPolicy: v1.RestartContainer}}
	}
}

// inWorldOf is inWorld on a node with "cpu memory".
func inWorldOf(t *testing.T, size string, body func(w *world)) {
	t.Helper()
	inWorld(t, func(w *world) {
		w.node = func() *v1.Node {
			return &v1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{Allocatable: cpuAndMemory(size).Limits},
			}
		}
		w.restart()
		body(w)
	})
}

// resize does what kubectl edit --subresource resize does.
func (a *fakeAPI) resize(uid types.UID, to string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.pods[uid].DeepCopy()
	p.Generation++
	p.Spec.Containers[0].Resources = cpuAndMemory(to)
	a.pods[uid] = p
	a.publish(PodUpdated, p)
}

// has says whether the container's limits, in the runtime and in the API, are "cpu memory", and the API shows no condition
// about a resize of that generation any more.
func (w *world) has(uid types.UID, size string) func() bool {
	return func() bool {
		p := w.api.get(uid)
		return w.applied(uid) == size && w.shown(uid) == size && w.condition(uid, v1.PodResizePending) == "none" &&
			w.condition(uid, v1.PodResizeInProgress) == "none" && p.Status.ObservedGeneration == p.Generation &&
			sameAmounts(w.main(uid).AllocatedResources, cpuAndMemory(size).Requests)
	}
}

func sameAmounts(a, b v1.ResourceList) bool {
	return a.Cpu().Cmp(*b.Cpu()) == 0 && a.Memory().Cmp(*b.Memory()) == 0
}

// applied are the limits of the container that runs, as the runtime has them.
func (w *world) applied(uid types.UID) string {
	c, ok := w.cri.Newest(uid, "main")
	if !ok || !c.Alive {
		return ""
	}
	return amountText(resource.NewMilliQuantity(c.Resources.GetCpuQuota()/100, resource.DecimalSI),
		resource.NewQuantity(c.Resources.GetMemoryLimitInBytes(), resource.BinarySI))
}

// shown are the limits of the container as the API shows them.
func (w *world) shown(uid types.UID) string {
	r := w.main(uid).Resources
	if r == nil {
		return ""
	}
	return amountText(r.Limits.Cpu(), r.Limits.Memory())
}

func amountText(cpu, memory *resource.Quantity) string { return cpu.String() + " " + memory.String() }

// condition is "reason: message" of a condition, "none" if there is none.
func (w *world) condition(uid types.UID, conditionType v1.PodConditionType) string {
	for _, c := range w.api.get(uid).Status.Conditions {
		if c.Type == conditionType {
			return c.Reason + ": " + c.Message
		}
	}
	return "none"
}

func (w *world) deferred(uid types.UID) func() bool {
	return func() bool {
		return strings.HasPrefix(w.condition(uid, v1.PodResizePending), v1.PodReasonDeferred+": Node")
	}
}

// onlyOne fails the test if the pod's container was ever restarted.
func (w *world) onlyOne(uid types.UID) {
	w.t.Helper()
	if n := len(w.cri.Containers(uid)); n != 1 || w.main(uid).RestartCount != 0 {
		w.t.Errorf("%d containers were made, %d restarts", n, w.main(uid).RestartCount)
	}
}

func TestResizeChangesTheContainerWhileItRuns(t *testing.T) {
	inWorldOf(t, "4 4Gi", func(w *world) {
		w.api.create(testPod("a", sized("1 1Gi")))
		w.eventually("running", 10*time.Second, w.running("a"))
		for _, size := range []string{"2 2Gi", "500m 2Gi", "500m 512Mi", "3 3Gi"} {
			w.api.resize("a", size)
			w.eventually("has "+size, 3*time.Second, w.has("a", size))
		}
		w.onlyOne("a")
	})
}

func TestResizeWaitsUntilAnotherPodMakesRoom(t *testing.T) {
	for name, makeRoom := range map[string]func(w *world){
		"goes":    func(w *world) { w.api.delete("b", 30) },
		"is gone": func(w *world) { w.api.delete("b", 0) },
		"shrinks": func(w *world) { w.api.resize("b", "1 1Gi") },
	} {
		t.Run(name, func(t *testing.T) {
			inWorldOf(t, "4 4Gi", func(w *world) {
				w.api.create(testPod("a", sized("1 1Gi")))
				w.api.create(testPod("b", sized("2 2Gi")))
				w.eventually("running", 10*time.Second, func() bool { return w.running("a")() && w.running("b")() })
				w.api.resize("a", "3 3Gi")
				w.eventually("deferred", 3*time.Second, w.deferred("a"))
				want := "Deferred: Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000"
				if got := w.condition("a", v1.PodResizePending); got != want {
					t.Errorf("condition %q, want %q", got, want)
				}
				time.Sleep(10 * time.Minute)
				if w.applied("a") != "1 1Gi" || w.shown("a") != "1 1Gi" {
					t.Errorf("applied %s and shown %s while it waits", w.applied("a"), w.shown("a"))
				}
				if p := w.api.get("a"); p.Status.ObservedGeneration != 2 {
					t.Errorf("observed generation %d of a change that waits", p.Status.ObservedGeneration)
				}
				makeRoom(w)
				w.eventually("resized", 5*time.Second, w.has("a", "3 3Gi"))
				w.onlyOne("a")
			})
		})
	}
}

func TestResizeBeyondTheNodeIsInfeasible(t *testing.T) {
	inWorldOf(t, "4 4Gi", func(w *world) {
		w.api.create(testPod("a", sized("1 1Gi")))
		w.eventually("running", 10*time.Second, w.running("a"))
		w.api.resize("a", "5 1Gi")
		want := "Infeasible: Node didn't have enough capacity: cpu, requested: 5000, capacity: 4000"
		w.eventually("infeasible", 3*time.Second, func() bool { return w.condition("a", v1.PodResizePending) == want })
		w.restart()
		time.Sleep(5 * time.Minute)
		if w.applied("a") != "1 1Gi" || w.condition("a", v1.PodResizePending) != want {
			t.Errorf("applied %s, condition %s", w.applied("a"), w.condition("a", v1.PodResizePending))
		}
		w.api.resize("a", "2 1Gi")
		w.eventually("resized", 3*time.Second, w.has("a", "2 1Gi"))
	})
}

func TestResizePolicyRestartsTheContainerOnce(t *testing.T) {
	inWorldOf(t, "4 4Gi", func(w *world) {
		w.api.create(testPod("a", sized("1 1Gi"), restartsFor(v1.ResourceMemory)))
		w.eventually("running", 10*time.Second, w.running("a"))
		w.api.resize("a", "2 1Gi")
		w.eventually("resized", 3*time.Second, w.has("a", "2 1Gi"))
		w.onlyOne("a")
		w.api.resize("a", "2 2Gi")
		w.eventually("restarted", 10*time.Second, func() bool { return w.main("a").RestartCount == 1 && w.has("a", "2 2Gi")() })
		if n := len(w.cri.Calls("UpdateContainerResources")); n != 1 {
			t.Errorf("%d updates, of which one was due", n)
		}
		w.restart()
		time.Sleep(5 * time.Minute)
		if n := w.main("a").RestartCount; n != 1 {
			t.Errorf("%d restarts", n)
		}
	})
}

func TestMemoryInUseIsTakenAwayWhenItIsFree(t *testing.T) {
	inWorldOf(t, "4 4Gi", func(w *world) {
		w.api.create(testPod("a", sized("1 2Gi")))
		w.eventually("running", 10*time.Second, w.running("a"))
		c, _ := w.cri.Newest("a", "main")
		w.cri.UseMemory(c.ID, 1<<30)
		w.api.resize("a", "1 512Mi")
		w.eventually("error", 3*time.Second, func() bool {
			return strings.HasPrefix(w.condition("a", v1.PodResizeInProgress), "Error: cannot decrease memory limits: ")
		})
		w.restart()
		time.Sleep(time.Minute)
		if w.applied("a") != "1 2Gi" || w.shown("a") != "1 2Gi" {
			t.Errorf("applied %s and shown %s while the memory is in use", w.applied("a"), w.shown("a"))
		}
		w.cri.UseMemory(c.ID, 1<<20)
		w.eventually("resized", 20*time.Second, w.has("a", "1 512Mi"))
		w.onlyOne("a")
	})
}

// TestNodeThatDiesDuringAResize kills the process at many moments of a resize, whose calls take some time.
func TestNodeThatDiesDuringAResize(t *testing.T) {
	for name, policy := range map[string]func(*v1.Pod){
		"in place": func(*v1.Pod) {}, "restarts for memory": restartsFor(v1.ResourceMemory),
	} {
		t.Run(name, func(t *testing.T) {
			for delay := time.Duration(0); delay <= time.Second; delay += 50 * time.Millisecond {
				inWorldOf(t, "4 4Gi", func(w *world) {
					w.api.create(testPod("a", sized("1 1Gi"), policy))
					w.eventually("running", 10*time.Second, w.running("a"))
					for _, method := range []string{"UpdateContainerResources", "StopContainer", "CreateContainer", "StartContainer"} {
						w.cri.Inject(fakecri.Fault{Method: method, Delay: 150 * time.Millisecond})
					}
					w.api.resize("a", "2 2Gi")
					time.Sleep(delay)
					w.restart()
					w.eventually("resized", 10*time.Second, w.has("a", "2 2Gi"))
					time.Sleep(75 * time.Second) // more than one resync
					if n, most := w.main("a").RestartCount, int32(len(w.api.get("a").Spec.Containers[0].ResizePolicy)); n != most {
						t.Errorf("killed after %s: %d restarts, want %d", delay, n, most)
					}
				})
			}
		})
	}
}

func TestChangesMadeWhileTheNodeIsAwayAreDecidedWhenAllPodsAreKnown(t *testing.T) {
	inWorldOf(t, "4 4Gi", func(w *world) {
		w.api.create(testPod("a", sized("1 1Gi")))
		w.api.create(testPod("b", sized("2 2Gi")))
		w.eventually("running", 10*time.Second, func() bool { return w.running("a")() && w.running("b")() })
		w.stop()
		w.api.resize("a", "3 3Gi")
		for range 3 { // it may die again before it has told
			w.start()
			w.stop()
		}
		w.start()
		w.eventually("deferred", 5*time.Second, w.deferred("a"))
		w.restart()
		time.Sleep(5 * time.Minute)
		if !w.deferred("a")() || w.applied("a") != "1 1Gi" {
			t.Errorf("condition %q, applied %s", w.condition("a", v1.PodResizePending), w.applied("a"))
		}
		w.stop()
		w.api.delete("b", 0)
		w.start()
		w.eventually("resized", 10*time.Second, w.has("a", "3 3Gi"))
		w.onlyOne("a")
	})
}

func TestRestartOfAContainerKeepsWhatItsPodWasAllocated(t *testing.T) {
	inWorldOf(t, "4 4Gi", func(w *world) {
		w.api.create(testPod("a", sized("1 1Gi")))
		w.api.create(testPod("b", sized("2 2Gi")))
		w.eventually("running", 10*time.Second, func() bool { return w.running("a")() && w.running("b")() })
		w.api.resize("a", "3 3Gi")
		w.eventually("deferred", 3*time.Second, w.deferred("a"))
		c, _ := w.cri.Newest("a", "main")
		w.cri.Exit(c.ID, 1)
		w.eventually("restarted", 10*time.Second, func() bool { return w.main("a").RestartCount == 1 && w.running("a")() })
		if w.applied("a") != "1 1Gi" || !w.deferred("a")() {
			t.Errorf("made with %s; condition %q", w.applied("a"), w.condition("a", v1.PodResizePending))
		}
		w.api.create(testPod("c", sized("1 1Gi")))
		w.eventually("a third pod has the room that was not allocated", 10*time.Second, w.running("c"))
	})
}

func TestLostLinkDuringAResizeIsRetried(t *testing.T) {
	inWorldOf(t, "4 4Gi", func(w *world) {
		w.api.create(testPod("a", sized("1 1Gi")))
		w.eventually("running", 10*time.Second, w.running("a"))
		w.cri.Inject(fakecri.Fault{Method: "UpdateContainerResources", Times: 2, Lost: true})
		w.cri.Inject(fakecri.Fault{Method: "UpdateContainerResources", Skip: 2, Times: 1, Err: errdefs.ErrUnavailable})
		w.api.resize("a", "2 2Gi")
		time.Sleep(50 * time.Millisecond)
		w.cri.Cut()
		time.Sleep(20 * time.Second)
		w.cri.Mend()
		w.eventually("resized", 15*time.Second, w.has("a", "2 2Gi"))
		w.onlyOne("a")
	})
}

func TestUpdateThatTheRuntimeRefusesIsToldAndRetried(t *testing.T) {
	inWorldOf(t, "4 4Gi", func(w *world) {
		w.api.create(testPod("a", sized("1 1Gi")))
		w.eventually("running", 10*time.Second, w.running("a"))
		fault := w.cri.Inject(fakecri.Fault{Method: "UpdateContainerResources", Err: errors.New("device or resource busy")})
		w.api.resize("a", "2 2Gi")
		w.eventually("error", 3*time.Second, func() bool {
			return strings.Contains(w.condition("a", v1.PodResizeInProgress), "device or resource busy")
		})
		if !w.running("a")() {
			t.Error("the pod is not ready any more")
		}
		fault.Remove()
		w.eventually("resized", 20*time.Second, w.has("a", "2 2Gi"))
		w.onlyOne("a")
	})
}

func TestSidecarIsResizedAndDebugContainerIsNot(t *testing.T) {
	inWorldOf(t, "4 4Gi", func(w *world) {
		always := v1.ContainerRestartPolicyAlways
		w.api.create(testPod("a", sized("1 1Gi"), withInit, func(p *v1.Pod) {
			p.Spec.InitContainers[0].RestartPolicy = &always
			p.Spec.InitContainers[0].Resources = cpuAndMemory("500m 512Mi")
			p.Spec.EphemeralContainers = []v1.EphemeralContainer{
				{EphemeralContainerCommon: v1.EphemeralContainerCommon(testContainer("debug"))},
			}
		}))
		w.eventually("running", 10*time.Second, w.running("a"))
		w.api.edit("a", func(p *v1.Pod) { p.Spec.InitContainers[0].Resources = cpuAndMemory("750m 512Mi") })
		w.api.resize("a", "1 1Gi")
		w.eventually("resized", 5*time.Second, func() bool {
			c, _ := w.cri.Newest("a", "init")
			return c.Resources.GetCpuQuota() == 75000 && w.condition("a", v1.PodResizeInProgress) == "none"
		})
		var updated []string
		for _, c := range w.cri.Calls("UpdateContainerResources") {
			updated = append(updated, c.Container)
		}
		if !slices.Equal(updated, []string{"init"}) {
			t.Errorf("updated %v", updated)
		}
	})
}
