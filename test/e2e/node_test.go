// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestNodeShowsTheMachineBehindIt: what `kubectl get nodes -o wide` and `kubectl describe node` tell is the remote host's.
func TestNodeShowsTheMachineBehindIt(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	onHost := func(name string, args ...string) string {
		out, err := k.host.Exec(t.Context(), name, args...)
		must(t, err)
		return strings.TrimSpace(out)
	}
	kernel := onHost("uname", "-r")
	version := strings.TrimPrefix(strings.Fields(onHost("containerd", "--version"))[2], "v")
	row := k.kubectl("get", "node", k.name, "-o", "wide", "--no-headers")
	for _, want := range []string{"Ready", kernel, "containerd://", version} {
		if !strings.Contains(row, want) {
			t.Errorf("kubectl get node does not show %q: %s", want, row)
		}
	}
	node, err := k.client().CoreV1().Nodes().Get(t.Context(), k.name, metav1.GetOptions{})
	must(t, err)
	if got, want := node.Status.NodeInfo.MachineID, onHost("cat", "/etc/machine-id"); got != want {
		t.Errorf("machine id %q, want the host's %q", got, want)
	}
	for label, want := range map[string]string{v1.LabelOSStable: "linux", v1.LabelHostname: k.name, v1.LabelArchStable: node.Status.NodeInfo.Architecture} {
		if got := node.Labels[label]; got != want {
			t.Errorf("label %s is %q, want %q", label, got, want)
		}
	}
	if got, want := node.Status.Capacity.Cpu().String(), onHost("nproc"); got != want {
		t.Errorf("capacity of cpu %s, want %s", got, want)
	}
	for _, resource := range []v1.ResourceName{v1.ResourceMemory, v1.ResourcePods, v1.ResourceEphemeralStorage} {
		if q := node.Status.Allocatable[resource]; q.IsZero() {
			t.Errorf("no allocatable %s", resource)
		}
	}
	for _, condition := range []v1.NodeConditionType{v1.NodeReady, v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure} {
		if !hasCondition(node, condition) {
			t.Errorf("no condition %s in %+v", condition, node.Status.Conditions)
		}
	}
	eventually(t, usual, "the lease is renewed", func() error {
		lease, err := k.client().CoordinationV1().Leases("kube-node-lease").Get(t.Context(), k.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if lease.Spec.RenewTime == nil || time.Since(lease.Spec.RenewTime.Time) > 20*time.Second {
			return fmt.Errorf("renewed %v", lease.Spec.RenewTime)
		}
		return nil
	})
}

func hasCondition(node *v1.Node, wanted v1.NodeConditionType) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == wanted && c.Reason != "" && c.Message != "" {
			return true
		}
	}
	return false
}

// TestKubeletAPIRefusesStrangers: without credentials nothing but a refusal comes back, and the health check needs them, too.
func TestKubeletAPIRefusesStrangers(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	if got := k.kubectl("get", "--raw", "/api/v1/nodes/"+k.name+"/proxy/healthz"); got != "ok" {
		t.Errorf("healthz through the API server: %q", got)
	}
	pods := k.kubectl("get", "--raw", "/api/v1/nodes/"+k.name+"/proxy/pods")
	if !strings.HasPrefix(pods, `{"kind":"PodList"`) {
		t.Errorf("pods through the API server: %.100s", pods)
	}
	for _, path := range []string{"/healthz", "/pods", "/runningpods/", "/metrics", "/containerLogs/default/x/y"} {
		if status := k.kubeletAPI(path); status != 401 && status != 403 {
			t.Errorf("%s without credentials: status %d", path, status)
		}
	}
}

// TestPodOnANodeWithItsHostInProcess: the same, with --host unix://.
func TestPodOnANodeWithItsHostInProcess(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).shore)
	pod := k.create(k.pod("ashore", `trap "echo told to stop; exit 0" TERM; echo running; sleep 1d & while :; do wait; done`,
		grace(20), preStop(`touch /marks/hook`), initContainer("first", `touch /marks/first`)))
	pod = k.awaitPodReady(pod)
	k.awaitMark("first")
	eventually(t, usual, "its log", func() error {
		if got := k.kubectl("logs", "ashore"); got != "running\n" {
			return fmt.Errorf("%q", got)
		}
		return nil
	})
	if got := k.kubectl("exec", "ashore", "--", "cat", "/proc/sys/kernel/hostname"); got != "ashore\n" {
		t.Errorf("exec: %q", got)
	}
	d := k.watchDeletion(pod, usual)
	k.requireStopped(d)
	if k.marked("hook").IsZero() {
		t.Error("the hook did not run")
	}
	if state := d.last.Status.ContainerStatuses[0].State.Terminated; state == nil || state.ExitCode != 0 {
		t.Errorf("the container ended as %+v", state)
	}
	k.awaitCollected(pod)
}
