// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/test/images"
)

// debug runs kubectl debug with a container "debugger" that sees the processes of main.
func (k *tester) debug(pod, stdin, script string) (string, error) {
	return k.tryKubectl(strings.NewReader(stdin), "debug", "-i", pod, "--image="+images.Busybox, "--target=main",
		"-c", "debugger", "--", "sh", "-c", script)
}

// awaitDebugged waits until the debug container has ended.
func (k *tester) awaitDebugged(pod *v1.Pod, code int32) *v1.Pod {
	k.Helper()
	return k.await(pod, usual, "shows the end of its debug container", func(p *v1.Pod) error {
		for _, c := range p.Status.EphemeralContainerStatuses {
			if c.Name == "debugger" && c.State.Terminated != nil && c.State.Terminated.ExitCode == code {
				return nil
			}
		}
		return fmt.Errorf("debug containers %+v", p.Status.EphemeralContainerStatuses)
	})
}

func TestDebugContainerSeesItsTargetAndRunsOnce(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.awaitPodReady(k.create(k.pod("patient", `exec sleep 12345`)))
	before := k.running(t, pod.UID)
	if out, err := k.debug(pod.Name, "word from outside\n", `ps; read line; echo "read $line"; exit 3`); err != nil {
		t.Errorf("kubectl debug wrote %q, %v", out, err)
	}
	pod = k.awaitDebugged(pod, 3)
	if err := ready(pod); err != nil || pod.Status.Phase != v1.PodRunning {
		t.Errorf("the end of a debug container changed its pod: %v", err)
	}
	// kubectl shows what comes while it is attached and leaves when its input has ended; the log has all.
	if got := k.kubectl("logs", pod.Name, "-c", "debugger"); !strings.Contains(got, "sleep 12345") || !strings.Contains(got, "read word from outside") {
		t.Errorf("its log is %q", got)
	}
	if _, err := k.debug(pod.Name, "", "true"); err == nil || !strings.Contains(err.Error(), `existing ephemeral containers "debugger" may not be changed`) {
		t.Errorf("a second debug container of the same name: %v", err)
	}
	for _, c := range k.containers(t, pod.UID) {
		if c.GetMetadata().GetName() == "debugger" {
			_, err := k.host.Crictl(t.Context(), "rm", "-f", c.GetId())
			must(t, err)
		}
	}
	time.Sleep(3 * time.Second) // for what must not happen
	for _, c := range k.containers(t, pod.UID) {
		if c.GetMetadata().GetName() == "debugger" {
			t.Errorf("it was made again: %v", c)
		}
	}
	k.awaitDebugged(pod, 3)
	if after := k.running(t, pod.UID); len(after) != 1 || after["main"] != before["main"] {
		t.Errorf("running before %v, after %v", before, after)
	}
}

// TestDebugContainerOnATerminal is kubectl debug -it. This side has no terminal, so what it wrote is read from the log.
func TestDebugContainerOnATerminal(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.awaitPodReady(k.create(k.pod("patient", `exec sleep 12345`)))
	if out, err := k.tryKubectl(strings.NewReader("tty; exit 4\n"), "debug", "-it", pod.Name, "--image="+images.Busybox, "-c", "debugger", "--", "sh"); err != nil {
		t.Errorf("kubectl debug -it wrote %q, %v", out, err)
	}
	k.awaitDebugged(pod, 4)
	if got := k.kubectl("logs", pod.Name, "-c", "debugger"); !strings.Contains(got, "/dev/") {
		t.Errorf("its log is %q", got)
	}
}
