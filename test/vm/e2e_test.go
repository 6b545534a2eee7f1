// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"fmt"
	"maps"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestHostWithAKernelOfItsOwn has all that the machine is booted for, one after the other: its processor is slow.
func TestHostWithAKernelOfItsOwn(t *testing.T) {
	e := startEdge(t)
	for _, tt := range []struct {
		name string
		test func(*edge)
	}{
		{"tells what it is", whatItIs},
		{"is served by a confined unit", confinedUnit},
		{"has a slice for each pod", podSlices},
		{"resizes a container", resizedContainer},
		{"resizes a pod as a whole", resizedPod},
		{"counts how long a pod waits", underPressure},
		{"tells why a container was killed", outOfMemory},
		{"keeps its pods when both halves are killed", killed},
		{"is left without a trace of pods", nothingLeft},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.test(e.part(t)) })
	}
}

// whatItIs shows that it is no part of this machine.
func whatItIs(e *edge) {
	node, err := e.cluster.Client().CoreV1().Nodes().Get(e.Context(), nodeName, metav1.GetOptions{})
	must(e.T, err)
	own, err := os.ReadFile("/proc/sys/kernel/osrelease")
	must(e.T, err)
	info := node.Status.NodeInfo
	if kernel := e.on("uname -r"); info.KernelVersion != kernel || kernel == strings.TrimSpace(string(own)) {
		e.Errorf("the node has kernel %s, the machine %s, this machine %s", info.KernelVersion, kernel, own)
	}
	if !strings.HasPrefix(info.OSImage, "Debian") || info.MachineID != e.on("cat /etc/machine-id") || info.BootID != e.on("cat /proc/sys/kernel/random/boot_id") {
		e.Errorf("the node says %+v", info)
	}
	capacity := node.Status.Capacity
	if capacity.Cpu().Value() != processors || capacity.Memory().Value() != e.memory("MemTotal") {
		e.Errorf("its capacity is %v", capacity)
	}
	e.on("test -f /sys/fs/cgroup/cgroup.controllers && systemctl is-active systemd-journald dbus containerd tombolo-host")
	e.Logf("%+v, %v", info, capacity)
}

// memory is a number of bytes from /proc/meminfo.
func (e *edge) memory(name string) int64 {
	e.Helper()
	kib, err := strconv.ParseInt(e.on("awk '$1 == \""+name+":\" {print $2}' /proc/meminfo"), 10, 64)
	must(e.T, err)
	return kib * 1024
}

// maxExposure is what systemd-analyze may say of the unit: 0 is locked up, 10 is free.
const maxExposure = 7.0

// confinedUnit looks at the unit of deploy/systemd with the eyes of systemd.
func confinedUnit(e *edge) {
	report := e.on("systemd-analyze security --no-pager tombolo-host.service")
	lines := strings.Split(report, "\n")
	verdict := lines[len(lines)-1]
	e.Log(verdict)
	_, after, _ := strings.Cut(verdict, "tombolo-host.service: ")
	exposure, err := strconv.ParseFloat(strings.Fields(after + " ?")[0], 64)
	if err != nil || exposure > maxExposure {
		e.Errorf("want at most %.1f:\n%s", maxExposure, report)
	}
	if out := e.on("systemd-analyze verify /etc/systemd/system/tombolo-host.service 2>&1"); out != "" {
		e.Errorf("systemd-analyze verify: %s", out)
	}
	if n := e.on("systemctl show --property=NRestarts --value tombolo-host"); n != "0" {
		e.Errorf("tombolo host was restarted %s times", n)
	}
	e.requireUnhindered()
}

// requireUnhindered fails if the unit takes a right from tombolo host that it needs.
func (e *edge) requireUnhindered() {
	e.Helper()
	out := e.on(`journalctl --no-pager --boot --unit tombolo-host --grep "not permitted|permission denied|read-only file system" || true`)
	if !strings.Contains(out, "No entries") {
		e.Errorf("tombolo host lacks a right:\n%s", out)
	}
}

// group is the first container of a pod with what files of control groups should say.
type group struct{ pod, container map[string]string }

// podSlices shows the control groups of a pod of each class, and that they go with it.
func podSlices(e *edge) {
	const request = 16 << 20
	// A container that requests less memory than it may use gets a share of the machine's swap, in pages.
	share := request * e.memory("SwapTotal") / e.memory("MemTotal") / 4096 * 4096
	if share == 0 {
		e.Fatal("the machine has no swap")
	}
	for _, tt := range []struct {
		name      string
		resources v1.ResourceRequirements
		class     v1.PodQOSClass
		want      group
	}{
		{"besteffort", v1.ResourceRequirements{}, v1.PodQOSBestEffort, group{
			map[string]string{"cpu.weight": "1", "cpu.max": "max 100000", "memory.max": "max"},
			map[string]string{"cpu.max": "max 100000", "memory.max": "max", "memory.swap.max": "0"},
		}},
		{"burstable", v1.ResourceRequirements{Requests: amounts("100m", "16Mi"), Limits: amounts("200m", "64Mi")}, v1.PodQOSBurstable, group{
			map[string]string{"cpu.weight": "4", "cpu.max": "20000 100000", "memory.max": "67108864"},
			map[string]string{"cpu.max": "20000 100000", "memory.max": "67108864", "memory.swap.max": strconv.FormatInt(share, 10)},
		}},
		{"guaranteed", v1.ResourceRequirements{Requests: amounts("100m", "32Mi"), Limits: amounts("100m", "32Mi")}, v1.PodQOSGuaranteed, group{
			map[string]string{"cpu.weight": "4", "cpu.max": "10000 100000", "memory.max": "33554432"},
			map[string]string{"cpu.max": "10000 100000", "memory.max": "33554432", "memory.swap.max": "0"},
		}},
	} {
		pod := e.run(tt.name, "exec sleep 1d", func(p *v1.Pod) { p.Spec.Containers[0].Resources = tt.resources })
		if pod.Status.QOSClass != tt.class {
			e.Errorf("pod %s is of class %s", pod.Name, pod.Status.QOSClass)
		}
		maps.Copy(tt.want.pod, map[string]string{
			"memory.min": "0", "memory.low": "0", "memory.high": "max", "pids.max": strconv.Itoa(podPIDs), "hugetlb.2MB.max": "0",
		})
		tt.want.container["memory.oom.group"] = "1"
		e.requireFiles(podSlice(pod), tt.want.pod)
		e.requireFiles(containerScope(pod), tt.want.container)
		e.remove(pod)
		eventually(e.T, "the end of its slice", func() error {
			if left := e.on("ls -d " + podSlice(pod) + " 2> /dev/null || true"); left != "" {
				return fmt.Errorf("left: %s", left)
			}
			return nil
		})
	}
	const top = "/sys/fs/cgroup/tombolo.slice/tombolo-kubepods.slice"
	cpus, err := strconv.Atoi(strings.TrimSpace(e.on("nproc")))
	if err != nil {
		e.Fatal(err)
	}
	for _, dir := range []string{top, path.Dir(top)} { // the weight of the machine
		e.requireFiles(dir, map[string]string{"cpu.weight": strconv.Itoa(1 + (cpus*1024-2)*9999/262142)})
	}
	e.requireFiles(top+"/tombolo-kubepods-besteffort.slice", map[string]string{"cpu.weight": "1", "memory.max": "max"})
	e.requireFiles(top+"/tombolo-kubepods-burstable.slice", map[string]string{"memory.max": "max", "pids.max": "max"})
}

// resizedContainer changes what a container has while it runs.
func resizedContainer(e *edge) {
	resources := func(cpu, memory string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			// As much as it requests, or it would use swap and could not be resized.
			p.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: amounts("50m", memory), Limits: amounts(cpu, memory)}
		}
	}
	e.resizeAndBack(resources, map[string]string{"cpu.max": "50000 100000", "memory.max": "67108864"})
}

// resizedPod changes what a pod has as a whole, which its container leaves to it.
func resizedPod(e *edge) {
	whole := func(cpu, memory string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.Resources = &v1.ResourceRequirements{Requests: amounts("100m", "32Mi"), Limits: amounts(cpu, memory)}
		}
	}
	e.resizeAndBack(whole, map[string]string{"cpu.max": "50000 100000", "memory.max": "67108864"})
}

// resizeAndBack makes a pod with 500m and 64Mi, gives it more, and takes it back. Pod and container have the files each time.
func (e *edge) resizeAndBack(resources func(cpu, memory string) func(*v1.Pod), files map[string]string) {
	e.Helper()
	pod := e.run("elastic", "exec sleep 1d", resources("500m", "64Mi"))
	require := func(want map[string]string) {
		e.Helper()
		e.requireFiles(podSlice(pod), want)
		e.requireFiles(containerScope(pod), want)
	}
	require(files)
	e.resize(pod, resources("1", "96Mi"))
	require(map[string]string{"cpu.max": "100000 100000", "memory.max": "100663296"})
	e.resize(pod, resources("500m", "64Mi"))
	require(files)
	e.requireSame(pod)
	e.remove(pod)
}

// requireSame fails if the pod's container is another one.
func (e *edge) requireSame(pod *v1.Pod) {
	e.Helper()
	now := e.await(pod, "is Ready", ready).Status.ContainerStatuses[0]
	if before := pod.Status.ContainerStatuses[0]; now.ContainerID != before.ContainerID || now.RestartCount != 0 {
		e.Errorf("container %s was replaced by %s, %d restarts", before.ContainerID, now.ContainerID, now.RestartCount)
	}
}

// underPressure shows that the kernel counts how long a pod waits for what its control group keeps from it.
func underPressure(e *edge) {
	pod := e.run("busy", "while :; do :; done", func(p *v1.Pod) {
		p.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: amounts("50m", "16Mi"), Limits: amounts("100m", "16Mi")}
	})
	for _, dir := range []string{podSlice(pod), containerScope(pod)} {
		for _, resource := range []string{"memory", "io"} {
			if _, err := stalled(e.on("cat " + dir + "/" + resource + ".pressure")); err != nil {
				e.Errorf("%s of pod %s: %v", resource, pod.Name, err)
			}
		}
		eventually(e.T, "it waits for a processor", func() error {
			text := e.on("cat " + dir + "/cpu.pressure")
			if stalled, err := stalled(text); err != nil || stalled == 0 {
				return fmt.Errorf("%q, %w", text, err)
			}
			return nil
		})
		e.Logf("pressure on %s:\n%s", dir, e.on("cd "+dir+" && grep . cpu.pressure memory.pressure io.pressure"))
	}
	e.remove(pod)
}

// stalled is for how many microseconds some processes of a group waited, from one of its files of pressure.
func stalled(text string) (int64, error) {
	for line := range strings.Lines(text) {
		if _, total, ok := strings.Cut(strings.TrimSpace(line), " total="); ok && strings.HasPrefix(line, "some avg10=") {
			return strconv.ParseInt(total, 10, 64)
		}
	}
	return 0, fmt.Errorf("no line of it says for how long some waited: %q", text)
}

// outOfMemory tells a kill for want of memory, which takes the whole container, from an exit that looks like one.
//
// containerd reads the mark of such a kill in the container's group, which systemd removes as soon as no process is in it.
// Which of them is first is up to chance, here as with a kubelet. So a process of the machine stays in the group.
func outOfMemory(e *edge) {
	pod := e.start("ends", "until [ -e /go ]; do sleep 1; done; tail /dev/zero; echo lived on; exec sleep 1d", func(p *v1.Pod) {
		p.Spec.RestartPolicy = v1.RestartPolicyNever
		c := &p.Spec.Containers[0]
		c.Name, c.Resources = "greedy", v1.ResourceRequirements{Requests: amounts("50m", "32Mi"), Limits: amounts("1", "32Mi")}
		other := *c
		other.Name, other.Command = "other", []string{"sh", "-c", "exit 137"}
		p.Spec.Containers = append(p.Spec.Containers, other)
	})
	pod = e.await(pod, "runs", func(p *v1.Pod) error {
		if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].State.Running == nil {
			return fmt.Errorf("containers %+v", p.Status.ContainerStatuses)
		}
		return nil
	})
	// The kernel spares a process with this mark.
	e.on("sleep 1d < /dev/null > /dev/null 2>&1 & echo -1000 > /proc/$!/oom_score_adj && echo $! > " + containerScope(pod) + "/cgroup.procs")
	if out, err := e.cluster.Kubectl(e.Context(), "exec", pod.Name, "-c", "greedy", "--", "touch", "/go"); err != nil {
		e.Fatalf("exec: %q, %v", out, err)
	}
	e.await(pod, "says how its containers ended", func(p *v1.Pod) error {
		for i, want := range []string{"OOMKilled", "Error"} {
			end := p.Status.ContainerStatuses[i].State.Terminated
			if end == nil || end.ExitCode != 137 || end.Reason != want {
				return fmt.Errorf("container %s ended with %+v", p.Status.ContainerStatuses[i].Name, end)
			}
		}
		return nil
	})
	if log, _ := e.cluster.Kubectl(e.Context(), "logs", pod.Name, "-c", "greedy"); strings.Contains(log, "lived on") {
		e.Errorf("only a part of it was killed: %q", log)
	}
	e.Logf("the kernel says of pod %s:\n%s", pod.Name, e.on("cat "+podSlice(pod)+"/memory.events"))
	e.remove(pod)
}

// killed ends both halves of the product with SIGKILL, and starts more processes than a pod may have.
func killed(e *edge) {
	pod := e.run("lasting", "echo running; exec sleep 1d", func(*v1.Pod) {})
	requireUsable := func() {
		e.Helper()
		eventually(e.T, "its log", func() error {
			if log, err := e.cluster.Kubectl(e.Context(), "logs", pod.Name); err != nil || log != "running\n" {
				return fmt.Errorf("%q, %w", log, err)
			}
			return nil
		})
		if out, err := e.cluster.Kubectl(e.Context(), "exec", pod.Name, "--", "hostname"); err != nil || out != pod.Name+"\n" {
			e.Errorf("exec: %q, %v", out, err)
		}
		e.requireSame(pod)
	}
	requireUsable()
	before := e.on("systemctl show --property=MainPID --value tombolo-host")
	e.on("systemctl kill --signal=KILL tombolo-host")
	eventually(e.T, "systemd starts tombolo host again", func() error {
		out := e.on("systemctl show --property=MainPID --value tombolo-host; systemctl is-active tombolo-host || true")
		if pid, state, _ := strings.Cut(out, "\n"); pid == before || pid == "0" || state != "active" {
			return fmt.Errorf("it is %s with pid %s, was %s", state, pid, before)
		}
		return nil
	})
	requireUsable()

	must(e.T, e.node.Kill())
	e.startNode()
	requireUsable()

	// The shell gives up when it cannot fork any more.
	script := fmt.Sprintf("i=0; while [ $i -lt %d ]; do sleep 1d < /dev/null > /dev/null 2>&1 & i=$((i+1)); done", 2*podPIDs)
	if out, err := e.cluster.Kubectl(e.Context(), "exec", pod.Name, "--", "sh", "-c", script); err == nil || !strings.Contains(err.Error(), "fork") {
		e.Errorf("it started %d processes: %q, %v", 2*podPIDs, out, err)
	}
	// The kernel counts that where it is refused, not where the limit is.
	if out := e.on("cat " + containerScope(pod) + "/pids.events"); !strings.HasPrefix(out, "max ") || out == "max 0" {
		e.Errorf("the kernel refused it no process: %s", out)
	}
	e.requireSame(pod)
}

// nothingLeft looks for what pods were made of once all are gone, and for what went wrong on the way.
func nothingLeft(e *edge) {
	list, err := e.cluster.Client().CoreV1().Pods(v1.NamespaceDefault).List(e.Context(), metav1.ListOptions{})
	must(e.T, err)
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			e.remove(&list.Items[i])
		}
	}
	for what, script := range map[string]string{
		"control groups": "find /sys/fs/cgroup -name '*kubepods*pod*.slice' -o -name 'cri-containerd-*'",
		"units":          "systemctl list-units --all --no-legend --plain '*kubepods*pod*.slice' 'cri-containerd-*'",
		"directories":    "ls /var/lib/tombolo/pods",
		"sandboxes":      "crictl pods --quiet",
		"containers":     "crictl ps --all --quiet",
	} {
		eventually(e.T, "the end of the "+what+" of pods", func() error {
			if left := e.on(script); left != "" {
				return fmt.Errorf("left: %s", left)
			}
			return nil
		})
	}
	e.requireUnhindered()
}
