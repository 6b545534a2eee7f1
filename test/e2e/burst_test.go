// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// burstVariable is how many pods end at once in the long variant of the test.
	burstVariable = "TOMBOLO_E2E_BURST"
	// fewPods end at once in every run.
	fewPods = 30
	// burstTimeout is for many pods to start, and to be removed.
	burstTimeout = 10 * time.Minute
	// late is what a pod may be told of late because of another one's hanging probe, when the machine has time for it.
	late = time.Second
)

// TestPodsThatEndAtOnceAreNotDelayedByAHangingProbe: the probe takes five minutes, so whoever waits for it is late by far.
func TestPodsThatEndAtOnceAreNotDelayedByAHangingProbe(t *testing.T) {
	s := require(t).squall
	t.Run("few", func(t *testing.T) {
		k := on(t, s)
		hung := k.hang()
		told := k.burst("few", fewPods)
		t.Logf("%d pods ended at once; told of the median after %v and of the last after %v", fewPods, told[fewPods/2], told[fewPods-1])
		k.requireUntouched(hung)
	})
	t.Run("many", func(t *testing.T) {
		text := os.Getenv(burstVariable)
		if text == "" {
			t.Skipf("takes minutes and all of a quiet machine: set %s to the number of pods, such as 500", burstVariable)
		}
		n, err := strconv.Atoi(text)
		must(t, err)
		k := on(t, s)
		k.restartNodeWith("--max-pods", strconv.Itoa(n+20))
		eventually(t, usual, "the node takes as many pods", func() error {
			if capacity := k.kubectl("get", "node", k.name, "-o", "jsonpath={.status.allocatable.pods}"); capacity != strconv.Itoa(n+20) {
				return fmt.Errorf("%s", capacity)
			}
			return nil
		})
		without := k.burst("without", n)
		hung := k.hang()
		with := k.burst("with", n)
		t.Logf("%d pods ended at once; told of the median after %v and of the last after %v; beside a hanging probe after %v and %v",
			n, without[n/2], without[n-1], with[n/2], with[n-1])
		if with[n/2] > without[n/2]+late || with[n-1] > without[n-1]+late {
			t.Errorf("pods are late by more than %v beside a hanging probe", late)
		}
		k.requireUntouched(hung)
	})
}

// hang makes a pod with a probe that hangs.
func (k *tester) hang() *v1.Pod {
	k.Helper()
	hanging := probe(1, execHandler(`touch /marks/hanging; exec sleep 1d`))
	hanging.TimeoutSeconds = 300
	pod := k.awaitPodReady(k.create(k.pod("hung", `exec sleep 1d`, liveness(hanging))))
	k.awaitMark("hanging")
	return pod
}

// burst has pods end at once and returns, in order, how long after that each was seen as Succeeded by a watcher.
func (k *tester) burst(name string, n int) []time.Duration {
	k.Helper()
	gate := k.mark(name)
	must(k.T, syscall.Mkfifo(gate, 0o666))
	must(k.T, os.Chmod(gate, 0o666)) // whatever the umask
	open := func() *os.File {
		f, err := os.OpenFile(gate, os.O_RDWR, 0)
		must(k.T, err)
		return f
	}
	writer := open() // so that nobody who reads from it gets anything, not even its end
	var mu sync.Mutex
	var opened time.Time
	told := map[string]time.Duration{}
	stop := k.follow(func(p *v1.Pod) {
		mu.Lock()
		defer mu.Unlock()
		if _, again := told[p.Name]; p.Labels["burst"] == name && p.Status.Phase == v1.PodSucceeded && !again {
			told[p.Name] = time.Since(opened)
		}
	})
	defer stop()
	var pods []*v1.Pod
	for i := range n {
		pods = append(pods, k.create(k.pod(fmt.Sprintf("%s-%d", name, i), `read line < /marks/`+name+`; exit 0`, restart(v1.RestartPolicyNever),
			func(p *v1.Pod) { p.Labels = map[string]string{"burst": name} })))
	}
	for _, pod := range pods {
		k.await(pod, burstTimeout, "is Ready", ready)
	}
	time.Sleep(2 * time.Second) // Ready is told a moment before the script begins to read
	mu.Lock()
	opened = time.Now()
	mu.Unlock()
	must(k.T, writer.Close())
	eventually(k.T, 2*usual, "all have succeeded", func() error {
		must(k.T, open().Close()) // for those that begin to read only now
		mu.Lock()
		defer mu.Unlock()
		if len(told) < n {
			return fmt.Errorf("%d of %d", len(told), n)
		}
		return nil
	})
	k.removeBurst(name)
	mu.Lock()
	defer mu.Unlock()
	all := make([]time.Duration, 0, n)
	for _, d := range told {
		all = append(all, d)
	}
	slices.Sort(all)
	return all
}

// removeBurst removes the pods of a burst and waits until they are gone.
func (k *tester) removeBurst(name string) {
	k.Helper()
	selected := metav1.ListOptions{LabelSelector: "burst=" + name}
	must(k.T, k.client().CoreV1().Pods(k.namespace).DeleteCollection(k.Context(), metav1.DeleteOptions{}, selected))
	eventually(k.T, burstTimeout, "all are gone", func() error {
		list, err := k.client().CoreV1().Pods(k.namespace).List(k.Context(), selected)
		if err == nil && len(list.Items) > 0 {
			return fmt.Errorf("%d are there", len(list.Items))
		}
		return err
	})
}
