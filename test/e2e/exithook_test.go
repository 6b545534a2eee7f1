// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// onExit asks for preStop hooks after a natural end.
func onExit(p *v1.Pod) { p.Annotations = map[string]string{"tombolo.dev/prestop-on-exit": "true"} }

// cleaned is a job whose hook marks that it runs, takes some seconds and says what it finds.
func cleaned(k *tester, name string, edit ...func(*v1.Pod)) *v1.Pod {
	hook := fmt.Sprintf(`echo x >> /marks/%[1]s-hook; echo "cleaning up after $JOB"; sleep 3; echo x >> /marks/%[1]s-cleaned`, name)
	edits := append([]func(*v1.Pod){restart(v1.RestartPolicyNever), grace(30), preStop(hook), func(p *v1.Pod) {
		p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "JOB", Value: name}}
	}}, edit...)
	return k.pod(name, fmt.Sprintf(`echo x >> /marks/%s-main; echo working; exit 3`, name), edits...)
}

// requireCleaned checks a job that has ended: its hook ran once, and its status and log are those of its own container.
func (k *tester) requireCleaned(pod *v1.Pod, hooks int) {
	k.Helper()
	pod = k.awaitPhase(pod, v1.PodFailed)
	for mark, want := range map[string]int{"main": 1, "hook": hooks, "cleaned": hooks} {
		if n := k.lines(pod.Name + "-" + mark); n != want {
			k.Errorf("pod %s has %d marks %q, want %d", pod.Name, n, mark, want)
		}
	}
	if statuses := pod.Status.ContainerStatuses; len(statuses) != 1 || statuses[0].RestartCount != 0 ||
		statuses[0].State.Terminated == nil || statuses[0].State.Terminated.ExitCode != 3 {
		k.Errorf("statuses of pod %s: %+v", pod.Name, statuses)
	}
	if log := k.kubectl("logs", pod.Name); log != "working\n" {
		k.Errorf("log of pod %s: %q", pod.Name, log)
	}
}

func TestAnnotatedJobRunsItsCleanupHookOnceAfterItsNaturalExit(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	t.Run("annotated", func(t *testing.T) {
		t.Parallel()
		k := k.part(t)
		pod := k.create(cleaned(k, "annotated", onExit))
		k.requireCleaned(pod, 1)
		k.awaitEvent(pod, "PreStopOnExit", "Running preStop hook of finished container main")
		log := filepath.Join(k.logsDir(), fmt.Sprintf("%s_%s_%s", pod.Namespace, pod.Name, pod.UID), "main", "exit-hook.log")
		if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), "cleaning up after annotated") {
			k.Errorf("log of the hook: %q, %v", text, err)
		}
	})
	t.Run("ordinary", func(t *testing.T) {
		t.Parallel()
		k := k.part(t)
		k.requireCleaned(k.create(cleaned(k, "ordinary")), 0)
	})
	t.Run("deleted while it runs", func(t *testing.T) {
		t.Parallel()
		k := k.part(t)
		pod := k.awaitPodReady(k.create(k.pod("deleted", `trap "exit 0" TERM; sleep 1d & while :; do wait; done`, onExit, grace(20),
			restart(v1.RestartPolicyNever), preStop(`echo x >> /marks/deleted-hook`))))
		k.remove(pod)
		k.awaitGone(pod, usual)
		if n := k.lines("deleted-hook"); n != 1 {
			k.Errorf("the hook ran %d times", n)
		}
	})
}

func nodeKilledDuringHookAfterExit(k *tester) {
	pod := k.create(cleaned(k, "killed", onExit))
	k.awaitMark("killed-hook")
	k.killNode(k.T)
	k.restartNode(k.T)
	k.requireCleaned(pod, 1)
	// And between the end of the container and its hook.
	pod = k.create(cleaned(k, "between", onExit, func(p *v1.Pod) {
		p.Spec.Containers[0].Command = []string{"sh", "-c", `echo x >> /marks/between-main; echo working; touch /marks/between-up; sleep 3; exit 3`}
	}))
	k.awaitMark("between-up")
	k.killNode(k.T)
	time.Sleep(5 * time.Second)
	k.restartNode(k.T)
	k.requireCleaned(pod, 1)
}
