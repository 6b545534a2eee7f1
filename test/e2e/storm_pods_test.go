// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// These make tests longer than every run can bear.
const (
	// cutVariable is how long the link is cut, such as 5m.
	cutVariable = "TOMBOLO_E2E_CUT"
	usualCut    = 10 * time.Second
	// restartsVariable is how many times containerd is restarted.
	restartsVariable = "TOMBOLO_E2E_RESTARTS"
	usualRestarts    = 3
	// killsVariable is how many pods come and go while processes are killed.
	killsVariable = "TOMBOLO_E2E_KILLS"
	usualKills    = 5
)

// setting is what the variable says, else the usual value.
func setting[T any](k *tester, variable string, usual T, parse func(string) (T, error)) T {
	k.Helper()
	text := os.Getenv(variable)
	if text == "" {
		k.Logf("%s is not set: %v", variable, usual)
		return usual
	}
	value, err := parse(text)
	if err != nil {
		k.Fatalf("%s: %v", variable, err)
	}
	return value
}

// full is a pod with everything that can be disturbed: a sidecar that has to start, an init container, a hook at each end and
// probes. It leaves a line in a mark for each start of each part.
func (k *tester) full(name string) *v1.Pod {
	line := func(part string) string { return fmt.Sprintf("echo x >> /marks/%s-%s", name, part) }
	return k.pod(name, line("main")+`; trap "exit 0" TERM; sleep 1d & while :; do wait; done`, grace(60),
		sidecar("side", line("side")+`; trap "exit 0" TERM; sleep 1d & while :; do wait; done`, func(c *v1.Container) { c.StartupProbe = patient(execHandler("true")) }),
		initContainer("init", line("init")), readiness(patient(execHandler("true"))), liveness(patient(execHandler("true"))),
		func(p *v1.Pod) {
			begin, end := execHook(line("poststart")+"; sleep 1"), execHook(line("prestop")+"; sleep 1")
			p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &begin, PreStop: &end}
		})
}

// patient is a probe whose first failure counts, but that does not fail because the machine is busy.
func patient(handler v1.ProbeHandler) *v1.Probe {
	p := probe(1, handler)
	p.PeriodSeconds, p.TimeoutSeconds = 2, 20
	return p
}

// requireOnce fails unless each of the parts of a full pod ran once, and the pod has no restarts if there is a status.
func (k *tester) requireOnce(name string, pod *v1.Pod, parts ...string) {
	k.Helper()
	for _, part := range parts {
		k.awaitLines(name+"-"+part, 1)
		if n := k.lines(name + "-" + part); n != 1 {
			k.Errorf("%s of pod %s ran %d times", part, name, n)
		}
	}
	if pod == nil {
		return
	}
	for _, c := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		if c.RestartCount != 0 {
			k.Errorf("container %s of pod %s: %d restarts are told", c.Name, name, c.RestartCount)
		}
	}
	if events := k.eventsOf(pod, "Unhealthy"); len(events) > 0 {
		k.Errorf("a probe of pod %s is told to have failed: %s", name, events[0].Message)
	}
}

// everlasting pods are not evicted from a node that is away.
func everlasting(p *v1.Pod) {
	for _, key := range []string{v1.TaintNodeNotReady, v1.TaintNodeUnreachable} {
		p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Key: key, Operator: v1.TolerationOpExists})
	}
}

// linkCutInTheMiddle cuts the link while pods are in every phase of their lives.
func linkCutInTheMiddle(k *tester) {
	k.requireHostProcess()
	cut := setting(k, cutVariable, usualCut, time.ParseDuration)
	create := func(pod *v1.Pod) *v1.Pod {
		everlasting(pod)
		return k.create(pod)
	}
	probed := k.hold(create(k.full("probed")))
	ending := k.awaitPodReady(create(k.pod("ending", `trap "echo x >> /marks/ending-term; exit 0" TERM; sleep 1d & while :; do wait; done`,
		grace(60), preStop(`echo x >> /marks/ending-hook; sleep 4; echo x >> /marks/ending-hook-ended`))))
	hook := execHook(`echo x >> /marks/hooked-hook; sleep 4; echo x >> /marks/hooked-hook-ended`)
	hooked := create(k.pod("hooked", `echo x >> /marks/hooked-main; exec sleep 1d`, postStart(hook)))
	k.awaitMark("hooked-hook")
	k.remove(ending)
	k.awaitMark("ending-hook")
	var starting []*v1.Pod
	for i := range 4 {
		starting = append(starting, create(k.full(fmt.Sprintf("starting-%d", i))))
		time.Sleep(150 * time.Millisecond)
	}
	must(k.T, k.host.Disconnect(k.Context()))
	time.Sleep(cut)
	must(k.T, k.host.Reconnect(k.Context()))

	k.awaitGone(ending, 2*usual)
	k.requireOnce("ending", nil, "hook", "hook-ended", "term")
	k.requireOnce("hooked", k.awaitPodReady(hooked), "hook", "hook-ended", "main")
	for _, pod := range starting {
		k.requireOnce(pod.Name, k.awaitPodReady(pod), "init", "side", "main", "poststart")
	}
	must(k.T, k.awaitReady(k.Context()))
	k.requireUnchanged(probed)
	k.requireOnce("probed", k.awaitPodReady(probed.pod), "init", "side", "main", "poststart")
	k.awaitCollected(ending)
}

// follow watches the pods of the namespace until stop is called, which returns what was seen.
func (k *tester) follow(seen func(*v1.Pod)) (stop func()) {
	k.Helper()
	w, err := k.client().CoreV1().Pods(k.namespace).Watch(k.Context(), metav1.ListOptions{TimeoutSeconds: new(int64(3600))})
	must(k.T, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for ev := range w.ResultChan() {
			if pod, ok := ev.Object.(*v1.Pod); ok && ev.Type != watch.Deleted {
				seen(pod)
			}
		}
	})
	return func() {
		w.Stop()
		wg.Wait()
	}
}

// nodeKilledWhileProbing: no pod is unready for a moment.
func nodeKilledWhileProbing(k *tester) {
	held := k.hold(k.create(k.full("probed")))
	stop := k.follow(func(pod *v1.Pod) {
		if err := ready(pod); err != nil {
			k.Errorf("pod %s: %v", pod.Name, err)
		}
	})
	for range 2 {
		k.killNode(k.T)
		k.restartNode(k.T)
		time.Sleep(4 * time.Second) // several tries of each probe
	}
	stop()
	k.requireUnchanged(held)
	k.requireOnce("probed", k.awaitPodReady(held.pod), "init", "side", "main", "poststart")
}

func nodeKilledDuringPostStart(k *tester) {
	hook := execHook(`echo x >> /marks/pod-hook; sleep 5; echo x >> /marks/pod-ended`)
	pod := k.create(k.pod("hooked", `echo x >> /marks/pod-main; exec sleep 1d`, postStart(hook)))
	stop := k.follow(func(pod *v1.Pod) {
		if ready(pod) == nil && k.marked("pod-ended").IsZero() {
			k.Errorf("the pod is Ready before its hook has ended")
		}
	})
	k.awaitMark("pod-hook")
	time.Sleep(time.Second)
	k.killNode(k.T)
	k.restartNode(k.T)
	pod = k.awaitPodReady(pod)
	stop()
	if k.hostEndsWithNode() { // half a hook is no hook: the container starts anew
		for part, want := range map[string]int{"hook": 2, "ended": 1, "main": 2} {
			if n := k.lines("pod-" + part); n != want {
				k.Errorf("%s of the pod ran %d times, want %d", part, n, want)
			}
		}
		return
	}
	k.requireOnce("pod", pod, "hook", "ended", "main")
	k.requireUntouched(pod)
}

func debugContainerAndNewNode(k *tester) {
	pod := k.awaitPodReady(k.create(k.pod("patient", `exec sleep 12345`)))
	if _, err := k.debug(pod.Name, "", `echo x >> /proc/1/root/marks/debugged; exit 3`); err != nil {
		k.Logf("kubectl debug: %v", err)
	}
	k.awaitDebugged(pod, 3)
	for _, c := range k.containers(k.T, pod.UID) {
		if c.GetMetadata().GetName() == "debugger" {
			_, err := k.host.Crictl(k.Context(), "rm", "-f", c.GetId())
			must(k.T, err)
		}
	}
	k.killNode(k.T)
	k.restartNode(k.T)
	must(k.T, k.awaitReady(k.Context()))
	time.Sleep(3 * time.Second) // for what must not happen
	if n := k.lines("debugged"); n != 1 {
		k.Errorf("the debug container ran %d times", n)
	}
	k.awaitDebugged(pod, 3)
}

// bothKilledWhilePodsComeAndGo kills tombolo node, tombolo host or both, twice for each pod that comes and each that goes.
func bothKilledWhilePodsComeAndGo(k *tester) {
	rounds := setting(k, killsVariable, usualKills, strconv.Atoi)
	seed := uint64(time.Now().UnixNano())
	k.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	var pods, gone []*v1.Pod
	for i := range rounds {
		pods = append(pods, k.create(k.full(fmt.Sprintf("pod-%d", i))))
		if i >= 2 {
			victim := k.awaitPodReady(pods[i-2])
			k.remove(victim)
			gone = append(gone, victim)
		}
		for range 2 {
			time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
			k.killSome(random)
		}
	}
	for _, pod := range gone {
		k.awaitGone(pod, 2*usual)
		k.awaitCollected(pod)
		starts, broken := k.requireHooks(pod)
		if began, cut := k.lines(pod.Name+"-prestop"), k.cutHooks(pod, "preStop"); began > starts || began < starts-cut-broken {
			k.Errorf("preStop hooks of pod %s: %d began for %d containers, %d were cut", pod.Name, began, starts, cut)
		}
	}
	for _, pod := range pods[len(gone):] {
		pod = k.awaitPodReady(pod)
		starts, broken := k.requireHooks(pod)
		if told := int(pod.Status.ContainerStatuses[0].RestartCount); told < starts-1 || told > starts-1+broken {
			k.Errorf("main of pod %s was started %d times, of which containerd broke off %d, and %d restarts are told", pod.Name, starts, broken, told)
		}
		if running := k.running(k.T, pod.UID); len(running) != 2 {
			k.Errorf("pod %s runs %v", pod.Name, running)
		}
	}
}

// killSome kills one of the two processes, or both, and starts them again.
func (k *tester) killSome(random *rand.Rand) {
	k.Helper()
	which := random.IntN(3)
	if k.inProcess {
		which = 0 // there is but one
	}
	if which != 0 {
		k.killHost(k.T)
	}
	if which != 1 {
		k.killNode(k.T)
		k.restartNode(k.T)
	}
	if which != 0 {
		time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond)
		must(k.T, k.reviveHost(k.Context()))
	}
}

// requireHooks fails unless each part of a full pod ran once, and returns how often main was started: once more for each
// postStart hook that ended with its host process, for half a hook is no hook, and half of one is not made whole by another;
// and once more for each start that broke off with its host process, which are up to so many of the starts.
func (k *tester) requireHooks(pod *v1.Pod) (starts, broken int) {
	k.Helper()
	brokenOff := k.brokenStarts(pod)
	for _, part := range []string{"init", "side"} {
		k.awaitLines(pod.Name+"-"+part, 1)
		if n := k.lines(pod.Name + "-" + part); n > 1+brokenOff[part] {
			k.Errorf("%s of pod %s ran %d times, %d starts were broken off", part, pod.Name, n, brokenOff[part])
		}
	}
	broken = brokenOff["main"]
	cut := k.cutHooks(pod, "postStart")
	starts = k.lines(pod.Name + "-main")
	began := k.lines(pod.Name + "-poststart")
	if starts < 1+cut || starts > 1+cut+broken || began > starts || began < starts-cut-broken {
		k.Errorf("main of pod %s was started %d times, of which %d were broken off, %d of its postStart hooks began and %d were cut",
			pod.Name, starts, broken, began, cut)
	}
	return starts, broken
}

// What containerd says when it made a sandbox and a container, and of a start whose caller died before it was over: it kills the
// process, which may have begun.
var (
	madeSandbox   = regexp.MustCompile(`RunPodSandbox for name:.*uid:\\"([^\\]+)\\".* returns sandbox id \\"([0-9a-f]+)\\"`)
	madeContainer = regexp.MustCompile(`CreateContainer within sandbox \\"([0-9a-f]+)\\" for name:\\"([^\\]+)\\".* returns container id \\"([0-9a-f]+)\\"`)
	brokenStart   = regexp.MustCompile(`StartContainer for \\"([0-9a-f]+)\\" failed.*context canceled`)
)

// brokenStarts counts the starts of a pod's containers, by their names, that containerd broke off.
func (k *tester) brokenStarts(pod *v1.Pod) map[string]int {
	k.Helper()
	log := k.containerdLog()
	sandboxes, names := map[string]bool{}, map[string]string{}
	for _, found := range madeSandbox.FindAllSubmatch(log, -1) {
		sandboxes[string(found[2])] = string(found[1]) == string(pod.UID)
	}
	for _, found := range madeContainer.FindAllSubmatch(log, -1) {
		if sandboxes[string(found[1])] {
			names[string(found[3])] = string(found[2])
		}
	}
	out := map[string]int{}
	for _, found := range brokenStart.FindAllSubmatch(log, -1) {
		if name := names[string(found[1])]; name != "" {
			out[name]++
		}
	}
	return out
}

func (k *tester) containerdLog() []byte {
	k.Helper()
	log, err := os.ReadFile(filepath.Join(k.env.cluster.LogDir(), k.name+"-containerd.log"))
	must(k.T, err)
	return log
}

// cutHooks counts the hooks of a pod that tombolo host began and did not end, since it was killed.
func (k *tester) cutHooks(pod *v1.Pod, kind string) (cut int) {
	k.Helper()
	for line := range strings.Lines(k.hostLog(k.T)) {
		if !strings.Contains(line, "uid="+string(pod.UID)) || !strings.Contains(line, "hook="+kind) {
			continue
		}
		switch {
		case strings.Contains(line, `msg="hook begins"`):
			cut++
		case strings.Contains(line, `msg="hook ended"`):
			cut--
		}
	}
	return cut
}

// containerdComesAndGoes stops or kills containerd under pods of which some are probed and have sidecars.
func containerdComesAndGoes(k *tester) {
	const count = 30
	restarts := setting(k, restartsVariable, usualRestarts, strconv.Atoi)
	var pods []*v1.Pod
	for i := range count {
		name := fmt.Sprintf("pod-%d", i)
		pod := k.pod(name, `trap "echo x >> /marks/`+name+`-term" TERM; echo x >> /marks/`+name+`-main; while :; do sleep 1; done`)
		if i%5 == 0 {
			pod = k.full(name)
		}
		pods = append(pods, k.create(pod))
	}
	var held []unchanged
	for _, pod := range pods {
		held = append(held, k.hold(k.await(pod, burstTimeout, "is Ready", ready)))
	}
	var mu sync.Mutex
	troubles := map[string]string{}
	stop := k.follow(func(pod *v1.Pod) {
		for _, c := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
			if c.RestartCount > 0 || (c.State.Terminated != nil && c.Name != "init" && pod.DeletionTimestamp == nil) {
				mu.Lock()
				troubles[pod.Name] = fmt.Sprintf("container %s: %+v", c.Name, c)
				mu.Unlock()
			}
		}
	})
	begin := time.Now()
	for i := range restarts {
		if i%2 == 0 {
			must(k.T, k.host.StopContainerd(k.Context()))
		} else {
			must(k.T, k.host.KillContainerd())
		}
		time.Sleep(time.Duration(i) * 100 * time.Millisecond)
		must(k.T, k.host.StartContainerd(k.Context()))
		time.Sleep(time.Second)
	}
	k.Logf("%d restarts in %.1f s", restarts, time.Since(begin).Seconds())
	must(k.T, k.awaitReady(k.Context()))
	// It works as before: a new pod starts and ends.
	last := k.awaitPodReady(k.create(k.full("last")))
	d := k.watchDeletion(last, usual)
	k.requireStopped(d)
	stop()
	lost := k.lostByContainerd()
	for _, u := range held {
		if slices.ContainsFunc(slices.Collect(maps.Values(u.running)), func(id string) bool { return lost[id] }) {
			k.Logf("pod %s is not looked at: containerd itself did not find a container of it again: %s", u.pod.Name, troubles[u.pod.Name])
			continue
		}
		if text := troubles[u.pod.Name]; text != "" {
			k.Errorf("pod %s: %s", u.pod.Name, text)
		}
		k.requireUnchanged(u)
		k.requireOnce(u.pod.Name, k.awaitPodReady(u.pod), "main")
		if n := k.lines(u.pod.Name + "-term"); n != 0 {
			k.Errorf("pod %s was told to stop", u.pod.Name)
		}
	}
}

// lostContainer is what containerd says of a container whose shim does not answer within ten seconds of its start, as on a
// machine that is far too busy. Its state is unknown from then on, and a kubelet replaces it.
var lostContainer = regexp.MustCompile(`Failed to load container status for \\"([0-9a-f]+)\\"`)

// lostByContainerd are the ids of the containers that containerd lost when it started.
func (k *tester) lostByContainerd() map[string]bool {
	k.Helper()
	lost := map[string]bool{}
	for _, found := range lostContainer.FindAllSubmatch(k.containerdLog(), -1) {
		lost[string(found[1])] = true
	}
	return lost
}
