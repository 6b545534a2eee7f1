// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func amounts(cpu, memory string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
}

// resources gives a container its requests and limits.
func resources(container int, requests, limits v1.ResourceList) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Containers[container].Resources = v1.ResourceRequirements{Requests: requests, Limits: limits}
	}
}

// resize changes the pod through its subresource.
func (k *tester) resize(pod *v1.Pod, edit func(*v1.Pod)) {
	k.Helper()
	pod, err := k.get(pod)
	must(k.T, err)
	edit(pod)
	_, err = k.client().CoreV1().Pods(k.namespace).UpdateResize(k.Context(), pod.Name, pod, metav1.UpdateOptions{})
	must(k.T, err)
}

// resizing returns the message of the pod's condition about a resize, if it has one of this type and reason.
func resizing(kind v1.PodConditionType, reason string) func(*v1.Pod) error {
	return func(p *v1.Pod) error {
		for _, c := range p.Status.Conditions {
			if c.Type == kind && c.Reason == reason && c.Status == v1.ConditionTrue && c.ObservedGeneration == p.Generation {
				return nil
			}
		}
		return fmt.Errorf("conditions %+v", p.Status.Conditions)
	}
}

// resized is a pod whose container has what it asks for, as its status says, and of which no change is under way.
func resized(container int) func(*v1.Pod) error {
	return func(p *v1.Pod) error {
		for _, c := range p.Status.Conditions {
			if c.Type == v1.PodResizePending || c.Type == v1.PodResizeInProgress {
				return fmt.Errorf("condition %+v", c)
			}
		}
		want, status := p.Spec.Containers[container].Resources, p.Status.ContainerStatuses[container]
		if status.Resources == nil || !equality.Semantic.DeepEqual(*status.Resources, want) ||
			!equality.Semantic.DeepEqual(status.AllocatedResources, want.Requests) || p.Status.ObservedGeneration != p.Generation {
			return fmt.Errorf("generation %d of %d, container %+v", p.Status.ObservedGeneration, p.Generation, status)
		}
		return ready(p)
	}
}

// given is what the kernel gives to a container: its part of the processors in thousandths, its memory in bytes, and its
// weight among others, which has no unit.
type given struct{ cpu, memory, weight int64 }

// cgroup reads the files of a container's cgroup, of version 2 or 1.
func (k *tester) cgroup(pod *v1.Pod, container string) given {
	k.Helper()
	var text []string
	eventually(k.T, usual, "the files of the cgroup are read", func() error { // a node that was just started may not serve yet
		out, err := k.tryKubectl(nil, "exec", pod.Name, "-c", container, "--", "sh", "-c",
			`cd /sys/fs/cgroup; cat cpu.max memory.max cpu.weight 2> /dev/null || cat cpu/cpu.cfs_quota_us cpu/cpu.cfs_period_us memory/memory.limit_in_bytes cpu/cpu.shares`)
		text = strings.Fields(out)
		return err
	})
	if len(text) != 4 {
		k.Fatalf("cgroup of container %s: %q", container, text)
	}
	var n [4]int64
	for i := range text {
		var err error
		n[i], err = strconv.ParseInt(text[i], 10, 64) // "max" is no number, but nobody here has no limit
		must(k.T, err)
	}
	return given{cpu: n[0] * 1000 / n[1], memory: n[2], weight: n[3]}
}

const mebi = 1 << 20

// TestResizeChangesTheCgroupOfARunningContainer, up and down.
func TestResizeChangesTheCgroupOfARunningContainer(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.awaitPodReady(k.create(k.pod("elastic", `exec sleep 1d`, resources(0, amounts("20m", "32Mi"), amounts("200m", "64Mi")))))
	k.await(pod, usual, "has what it asks for", resized(0))
	before := k.cgroup(pod, "main")
	if before.cpu != 200 || before.memory != 64*mebi {
		t.Errorf("made with %+v", before)
	}
	k.resize(pod, resources(0, amounts("60m", "48Mi"), amounts("400m", "128Mi")))
	k.await(pod, usual, "has more", resized(0))
	if more := k.cgroup(pod, "main"); more.cpu != 400 || more.memory != 128*mebi || more.weight <= before.weight {
		t.Errorf("after it has grown: %+v, was %+v", more, before)
	}
	k.awaitEvent(pod, "ResizeCompleted", `Pod resize completed: {"containers":[{"name":"main","resources":{"limits":{"cpu":"400m","memory":"128Mi"}`)
	k.resize(pod, resources(0, amounts("20m", "32Mi"), amounts("100m", "48Mi")))
	k.await(pod, usual, "has less", resized(0))
	if less := k.cgroup(pod, "main"); less.cpu != 100 || less.memory != 48*mebi || less.weight != before.weight {
		t.Errorf("after it has shrunk: %+v", less)
	}
	k.requireUntouched(pod)
}

// TestResizeThatTakesMemoryInUseIsToldAndKillsNothing: the kernel would kill the program.
func TestResizeThatTakesMemoryInUseIsToldAndKillsNothing(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.create(k.pod("full", `dd if=/dev/zero of=/dev/shm/used bs=1M count=40; touch /marks/full; exec sleep 1d`,
		resources(0, amounts("10m", "16Mi"), amounts("500m", "96Mi"))))
	k.awaitMark("full")
	pod = k.awaitPodReady(pod)
	k.resize(pod, resources(0, amounts("10m", "16Mi"), amounts("500m", "24Mi")))
	pod = k.await(pod, usual, "says what is wrong", resizing(v1.PodResizeInProgress, v1.PodReasonError))
	k.awaitEvent(pod, "ResizeError", "below current usage")
	if has := k.cgroup(pod, "main"); has.memory != 96*mebi {
		t.Errorf("it has %+v", has)
	}
	if limit := pod.Status.ContainerStatuses[0].Resources.Limits.Memory(); limit.Value() != 96*mebi {
		t.Errorf("its status says that its limit is %v", limit)
	}
	k.kubectl("exec", pod.Name, "--", "rm", "/dev/shm/used")
	begin := time.Now()
	k.await(pod, usual, "has less after it uses less", resized(0))
	t.Logf("resized %.1f s after the memory was free", time.Since(begin).Seconds())
	if has := k.cgroup(pod, "main"); has.memory != 24*mebi {
		t.Errorf("it has %+v", has)
	}
	k.requireUntouched(pod)
}

// TestResizeRestartsContainersThatAskForIt, and no other, and only for the resource they ask it for.
func TestResizeRestartsContainersThatAskForIt(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.awaitPodReady(k.create(k.pod("picky", `echo x >> /marks/main; trap "exit 0" TERM; sleep 1d & while :; do wait; done`, func(p *v1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, shell("other", "echo x >> /marks/other; exec sleep 1d"))
		p.Spec.Containers[0].ResizePolicy = []v1.ContainerResizePolicy{
			{ResourceName: v1.ResourceCPU, RestartPolicy: v1.NotRequired}, {ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer},
		}
	}, resources(0, amounts("20m", "16Mi"), amounts("500m", "64Mi")), resources(1, amounts("20m", "16Mi"), amounts("500m", "64Mi")))))
	before := k.running(t, pod.UID)
	k.resize(pod, resources(0, amounts("20m", "16Mi"), amounts("600m", "64Mi")))
	k.await(pod, usual, "has more CPU", resized(0))
	if after := k.running(t, pod.UID); after["main"] != before["main"] || k.lines("main") != 1 {
		t.Errorf("it was restarted for CPU: %v, was %v", after, before)
	}
	k.resize(pod, func(p *v1.Pod) {
		resources(0, amounts("20m", "16Mi"), amounts("600m", "96Mi"))(p)
		resources(1, amounts("20m", "16Mi"), amounts("500m", "96Mi"))(p)
	})
	k.awaitEvent(pod, "Killing", "Container main resize requires restart")
	k.await(pod, usual, "runs again", runsAgain(1))
	for i, name := range []string{"main", "other"} {
		k.await(pod, usual, "has more memory", resized(i))
		if has := k.cgroup(pod, name); has.memory != 96*mebi {
			t.Errorf("container %s has %+v", name, has)
		}
	}
	after := k.running(t, pod.UID)
	if len(after) != 2 || after["main"] == before["main"] || after["other"] != before["other"] || k.lines("main") != 2 || k.lines("other") != 1 {
		t.Errorf("containers %v, were %v; main started %d times, other %d times", after, before, k.lines("main"), k.lines("other"))
	}
}

// TestResizeThatDoesNotFitIsToldAndTakenBack: it would fit if nothing else were on the node.
func TestResizeThatDoesNotFitIsToldAndTakenBack(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	k.awaitPodReady(k.create(k.pod("neighbour", `exec sleep 1d`, resources(0, amounts("50m", "16Mi"), nil))))
	pod := k.awaitPodReady(k.create(k.pod("greedy", `exec sleep 1d`, resources(0, amounts("20m", "16Mi"), nil))))
	node, err := k.client().CoreV1().Nodes().Get(t.Context(), k.name, metav1.GetOptions{})
	must(t, err)
	k.resize(pod, resources(0, v1.ResourceList{v1.ResourceCPU: *node.Status.Allocatable.Cpu(), v1.ResourceMemory: resource.MustParse("16Mi")}, nil))
	pod = k.await(pod, usual, "cannot have it", resizing(v1.PodResizePending, v1.PodReasonDeferred))
	k.awaitEvent(pod, "ResizeDeferred", "Node didn't have enough resource: cpu, requested: ")
	if got := pod.Status.ContainerStatuses[0].AllocatedResources.Cpu(); got.MilliValue() != 20 {
		t.Errorf("it is allocated %v", got)
	}
	k.resize(pod, resources(0, amounts("30m", "16Mi"), nil))
	k.await(pod, usual, "has what it asks for now", resized(0))
	k.requireUntouched(pod)
}

// nodeKilledDuringResize: the next process knows what was allocated, and what of it was done.
func nodeKilledDuringResize(k *tester) {
	held := k.hold(k.create(k.pod("elastic", `exec sleep 1d`, resources(0, amounts("20m", "32Mi"), amounts("200m", "64Mi")))))
	for i := range 3 {
		cpu := 300 + 100*int64(i)
		k.resize(held.pod, resources(0, amounts("20m", "32Mi"), amounts(fmt.Sprintf("%dm", cpu), "96Mi")))
		time.Sleep(time.Duration(i) * 150 * time.Millisecond)
		k.killNode(k.T)
		k.restartNode(k.T)
		k.await(held.pod, usual, "has what it asks for", resized(0))
		if has := k.cgroup(held.pod, "main"); has.cpu != cpu || has.memory != 96*mebi {
			k.Errorf("it has %+v, want %dm and 96Mi", has, cpu)
		}
	}
	k.requireUnchanged(held)
}
