// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// groupsOf returns the directories of the pod's control group in every hierarchy of the host.
func (k *tester) groupsOf(pod *v1.Pod) []string {
	k.Helper()
	// find complains of groups of others that vanish meanwhile.
	out, err := k.host.Exec(k.Context(), "sh", "-c", `find /sys/fs/cgroup -type d -path '*/tombolo/kubepods/*' -name "pod$1" || true`, "sh", string(pod.UID))
	must(k.T, err)
	return strings.Fields(out)
}

// groupFile returns the content of the first file of these names in the pod's group or a group above it.
func (k *tester) groupFile(pod *v1.Pod, above string, names ...string) string {
	k.Helper()
	for _, dir := range k.groupsOf(pod) {
		for _, name := range names {
			if out, err := k.host.Exec(k.Context(), "cat", dir+above+"/"+name); err == nil {
				return name + "=" + strings.TrimSpace(out)
			}
		}
	}
	k.Fatalf("no %q in the groups %q", names, k.groupsOf(pod))
	return ""
}

func limits(cpu, memory string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
}

// TestPodHasAControlGroupThatHoldsItsContainersAndGoesWithIt: of each class.
func TestPodHasAControlGroupThatHoldsItsContainersAndGoesWithIt(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	for _, tt := range []struct {
		name, class           string
		resources             v1.ResourceRequirements
		memory, shares, quota []string
	}{
		{"besteffort", "besteffort", v1.ResourceRequirements{}, nil, []string{"cpu.shares=2", "cpu.weight=1"}, []string{"cpu.cfs_quota_us=-1", "cpu.max=max 100000"}},
		{"burstable", "burstable", v1.ResourceRequirements{Requests: limits("100m", "16Mi"), Limits: limits("200m", "64Mi")},
			[]string{"memory.limit_in_bytes=67108864", "memory.max=67108864"}, []string{"cpu.shares=102", "cpu.weight=4"}, []string{"cpu.cfs_quota_us=20000", "cpu.max=20000 100000"}},
		{"guaranteed", "", v1.ResourceRequirements{Requests: limits("100m", "32Mi"), Limits: limits("100m", "32Mi")},
			[]string{"memory.limit_in_bytes=33554432", "memory.max=33554432"}, []string{"cpu.shares=102", "cpu.weight=4"}, []string{"cpu.cfs_quota_us=10000", "cpu.max=10000 100000"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k := k.part(t)
			pod := k.awaitPodReady(k.create(k.pod(tt.name, `exec sleep 1d`, func(p *v1.Pod) { p.Spec.Containers[0].Resources = tt.resources })))
			groups := k.groupsOf(pod)
			if len(groups) == 0 {
				t.Fatal("it has none")
			}
			for _, dir := range groups {
				if !strings.HasSuffix(dir, strings.ReplaceAll("/tombolo/kubepods/"+tt.class+"/pod"+string(pod.UID), "//", "/")) {
					t.Errorf("it is at %s", dir)
				}
			}
			k.requireOneOf(tt.shares, k.groupFile(pod, "", "cpu.shares", "cpu.weight"))
			k.requireOneOf(tt.quota, k.groupFile(pod, "", "cpu.cfs_quota_us", "cpu.max"))
			if tt.memory != nil {
				k.requireOneOf(tt.memory, k.groupFile(pod, "", "memory.limit_in_bytes", "memory.max"))
			}
			id := strings.TrimPrefix(pod.Status.ContainerStatuses[0].ContainerID, "containerd://")
			if _, err := k.host.Exec(t.Context(), "test", "-d", groups[0]+"/"+id); err != nil {
				t.Errorf("its container is elsewhere: %v", err)
			}
			if above := k.groupFile(pod, "/..", "cpu.shares", "cpu.weight"); tt.class != "" {
				k.requireOneOf([]string{"cpu.shares", "cpu.weight"}, strings.Split(above, "=")[0])
			} else { // that of all pods has the weight of the machine
				cpus := runtime.NumCPU()
				k.requireOneOf([]string{fmt.Sprintf("cpu.shares=%d", cpus*1024), fmt.Sprintf("cpu.weight=%d", 1+(cpus*1024-2)*9999/262142)}, above)
			}
			k.remove(pod)
			k.awaitGone(pod, usual)
			eventually(t, usual, "the end of its control group", func() error {
				if left := k.groupsOf(pod); len(left) > 0 {
					return fmt.Errorf("left: %q", left)
				}
				return nil
			})
		})
	}
}

func (k *tester) requireOneOf(want []string, got string) {
	k.Helper()
	if !slices.Contains(want, got) {
		k.Errorf("got %s, want one of %q", got, want)
	}
}

// TestPodAsAWholeIsLimited although none of its containers is, and resized as a whole.
func TestPodAsAWholeIsLimited(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.create(k.pod("whole", `exec sleep 1d`, func(p *v1.Pod) {
		p.Spec.Resources = &v1.ResourceRequirements{Requests: limits("100m", "32Mi"), Limits: limits("300m", "48Mi")}
	}))
	pod = k.awaitPodReady(pod)
	k.requireOneOf([]string{"memory.limit_in_bytes=50331648", "memory.max=50331648"}, k.groupFile(pod, "", "memory.limit_in_bytes", "memory.max"))
	k.requireOneOf([]string{"cpu.cfs_quota_us=30000", "cpu.max=30000 100000"}, k.groupFile(pod, "", "cpu.cfs_quota_us", "cpu.max"))

	for _, next := range []struct {
		cpu, memory string
		quota       int
	}{{"500m", "96Mi", 50000}, {"200m", "64Mi", 20000}} {
		want := v1.ResourceRequirements{Requests: limits("100m", "32Mi"), Limits: limits(next.cpu, next.memory)}
		k.resize(pod, func(p *v1.Pod) { p.Spec.Resources = &want })
		pod = k.await(pod, usual, "is resized as a whole", func(p *v1.Pod) error {
			for _, c := range p.Status.Conditions {
				if c.Type == v1.PodResizePending || c.Type == v1.PodResizeInProgress {
					return fmt.Errorf("condition %+v", c)
				}
			}
			if st := p.Status; st.Resources == nil || !equality.Semantic.DeepEqual(*st.Resources, want) ||
				!equality.Semantic.DeepEqual(st.AllocatedResources, want.Requests) || st.ObservedGeneration != p.Generation {
				return fmt.Errorf("resources %+v, allocated %v, generation %d of %d", st.Resources, st.AllocatedResources, st.ObservedGeneration, p.Generation)
			}
			return nil
		})
		memory := want.Limits.Memory().Value()
		k.requireOneOf([]string{fmt.Sprint("memory.limit_in_bytes=", memory), fmt.Sprint("memory.max=", memory)},
			k.groupFile(pod, "", "memory.limit_in_bytes", "memory.max"))
		k.requireOneOf([]string{fmt.Sprint("cpu.cfs_quota_us=", next.quota), fmt.Sprintf("cpu.max=%d 100000", next.quota)},
			k.groupFile(pod, "", "cpu.cfs_quota_us", "cpu.max"))
		if has := k.cgroup(pod, "main"); has.memory != memory || has.cpu != int64(next.quota)/100 {
			t.Errorf("its container, which leaves its limits to it, has %+v", has)
		}
	}
	k.awaitEvent(pod, "ResizeCompleted", "Pod resize completed")
	k.requireUntouched(pod)
}

// TestHugePagesAreCounted: the node tells how many it has, and takes no pod that asks for more.
func TestHugePagesAreCounted(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	node, err := k.client().CoreV1().Nodes().Get(t.Context(), k.name, metav1.GetOptions{})
	must(t, err)
	sizes, err := filepath.Glob("/sys/kernel/mm/hugepages/hugepages-*kB")
	must(t, err)
	told := 0
	for name := range node.Status.Capacity {
		if strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) {
			told++
		}
	}
	if told != len(sizes) {
		t.Errorf("the node tells %d sizes of huge pages of %d: %v", told, len(sizes), node.Status.Capacity)
	}
	pod := k.create(k.pod("greedy", `exec sleep 1d`, func(p *v1.Pod) {
		much := v1.ResourceList{"hugepages-2Mi": resource.MustParse("64Ti"), v1.ResourceMemory: resource.MustParse("16Mi")}
		p.Spec.NodeSelector, p.Spec.NodeName = nil, k.name // past the scheduler
		p.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: much, Limits: much}
	}))
	k.await(pod, usual, "is refused", func(p *v1.Pod) error {
		if p.Status.Phase != v1.PodFailed || p.Status.Reason != "OutOfhugepages-2Mi" {
			return fmt.Errorf("it is %s: %s, %s", p.Status.Phase, p.Status.Reason, p.Status.Message)
		}
		return nil
	})
}
