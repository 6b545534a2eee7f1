// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// disturbance is a test that kills, cuts and restarts, and so needs a node of its own.
type disturbance struct {
	name string
	run  func(*tester)
}

// runAlone runs tests one after the other on a site that nobody else uses meanwhile.
func runAlone(t *testing.T, s *site, tests []disturbance) {
	t.Helper()
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			must(t, s.awaitReady(t.Context()))
			tc.run(on(t, s))
		})
		if t.Failed() {
			return // the next one would only tell of the same
		}
	}
}

func TestProcessesAndLinkComeAndGo(t *testing.T) {
	t.Parallel()
	runAlone(t, require(t).storm, []disturbance{
		{"a killed node process leaves containers alone and catches up", killedNodeCatchesUp},
		{"a node process that is told to stop leaves pods alone", stoppedNode},
		{"a node process killed at any moment starts each container once", nodeKilledWhilePodsStart},
		{"a node process killed during a deletion finishes it with one hook", nodeKilledWhilePodEnds},
		{"a killed host process makes the node NotReady and nothing else", killedHost},
		{"a host process may start before containerd", hostBeforeContainerd},
		{"a node process killed around a hook after a natural end runs it once", nodeKilledDuringHookAfterExit},
		{"a killed node process does not change the readiness of probed pods", nodeKilledWhileProbing},
		{"a node process killed during a postStart hook runs it once", nodeKilledDuringPostStart},
		{"a node process killed during a resize finishes it", nodeKilledDuringResize},
		{"a debug container is not run again by a new node process", debugContainerAndNewNode},
		{"clients that go away leave nothing behind", clientsGoAway},
	})
}

// TestManyPodsOutliveWhatBreaks is not run beside others: the pods that it starts at once take all of the processor for minutes.
func TestManyPodsOutliveWhatBreaks(t *testing.T) {
	runAlone(t, require(t).squall, []disturbance{
		{"a link that is cut while pods start, run hooks, are probed and end changes nothing", linkCutInTheMiddle},
		{"both processes killed again and again while pods come and go", bothKilledWhilePodsComeAndGo},
		{"containerd restarted again and again under thirty pods", containerdComesAndGoes},
		{"static pods live as their files do, with the API and without", staticPodsLiveAsTheirFilesDo},
		{"a static pod lives as its page does", staticPodLivesAsItsPageDoes},
	})
}

// restarted checks that the same containers run, with the same restart counts.
type unchanged struct {
	pod     *v1.Pod
	running map[string]string
}

// hold remembers a Ready pod.
func (k *tester) hold(pod *v1.Pod) unchanged {
	k.Helper()
	pod = k.awaitPodReady(pod)
	return unchanged{pod: pod, running: k.running(k.T, pod.UID)}
}

// requireUnchanged fails if a container of the pod was restarted, or is told of as if it had been.
func (k *tester) requireUnchanged(u unchanged) {
	k.Helper()
	pod := k.awaitPodReady(u.pod)
	for name, id := range k.running(k.T, pod.UID) {
		if u.running[name] != id {
			k.Errorf("container %s of pod %s was %s and is %s", name, pod.Name, u.running[name], id)
		}
	}
	for i, c := range pod.Status.ContainerStatuses {
		if was := u.pod.Status.ContainerStatuses[i]; c.RestartCount != was.RestartCount || c.ContainerID != was.ContainerID {
			k.Errorf("container %s of pod %s: %d restarts and id %s, was %d and %s", c.Name, pod.Name, c.RestartCount, c.ContainerID, was.RestartCount, was.ContainerID)
		}
	}
}

func killedNodeCatchesUp(k *tester) {
	// One that has a restart behind it.
	steady := k.create(k.pod("steady", `echo x >> /marks/steady; test $(wc -l < /marks/steady) -ge 2 && exec sleep 1d`))
	deleted := k.create(k.pod("deleted", `trap "exit 0" TERM; sleep 1d & while :; do wait; done`, grace(20), preStop(`echo x >> /marks/deleted-hook; sleep 1`)))
	starting := k.create(k.pod("starting", `echo x >> /marks/main; exec sleep 1d`,
		initContainer("init", `echo x >> /marks/init; until [ -e /marks/go ]; do sleep 0.1; done`)))
	orphan := k.create(k.pod("orphan", `trap "exit 0" TERM; sleep 1d & while :; do wait; done`))
	k.await(steady, usual, "runs after a restart", func(p *v1.Pod) error {
		if len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount == 1 {
			return ready(p)
		}
		return errNotYet
	})
	held := k.hold(steady)
	k.awaitPodReady(deleted)
	k.awaitPodReady(orphan)
	k.awaitMark("init")

	k.killNode(k.T)
	k.remove(deleted)
	k.forceRemove(orphan)
	k.put("go")
	time.Sleep(2 * time.Second)
	if running := k.running(k.T, orphan.UID); len(running) != 1 {
		k.Errorf("containers of a pod ended without anybody to stop them: %v", running)
	}
	k.restartNode(k.T)

	k.awaitGone(deleted, usual)
	if n := k.lines("deleted-hook"); n != 1 {
		k.Errorf("the hook of the pod that was deleted meanwhile ran %d times", n)
	}
	started := k.awaitPodReady(starting)
	k.awaitLines("main", 1)
	if init, main := k.lines("init"), k.lines("main"); init != 1 || main != 1 {
		k.Errorf("the init container ran %d times and the main container %d times, want once", init, main)
	}
	if c := started.Status.ContainerStatuses[0]; c.RestartCount != 0 {
		k.Errorf("the container after the init phase has %d restarts", c.RestartCount)
	}
	k.awaitCollected(orphan)
	k.awaitCollected(deleted)
	k.requireUnchanged(held)
}

func stoppedNode(k *tester) {
	held := k.hold(k.create(k.pod("steady", `trap "touch /marks/term" TERM; sleep 1d & while :; do wait; done`)))
	must(k.T, k.nodeProc.Stop(k.Context())) // SIGTERM
	if err := k.nodeProc.Err(); err != nil {
		k.Errorf("tombolo node ended with %v; log %s", err, k.nodeProc.LogFile())
	}
	k.restartNode(k.T)
	must(k.T, k.awaitReady(k.Context()))
	k.requireUnchanged(held)
	if !k.marked("term").IsZero() {
		k.Error("the pod was told to stop, too")
	}
}

func nodeKilledWhilePodsStart(k *tester) {
	for i := range 5 {
		name := fmt.Sprintf("start-%d", i)
		pod := k.create(k.pod(name, `echo x >> /marks/`+name+`-main; exec sleep 1d`, restart(v1.RestartPolicyAlways),
			initContainer("init", `echo x >> /marks/`+name+`-init; sleep 0.3`)))
		time.Sleep(time.Duration(i) * 350 * time.Millisecond)
		k.killNode(k.T)
		k.restartNode(k.T)
		got := k.awaitPodReady(pod)
		broken := map[string]int{}
		if k.hostEndsWithNode() {
			broken = k.brokenStarts(pod)
		}
		if n := got.Status.ContainerStatuses[0].RestartCount + got.Status.InitContainerStatuses[0].RestartCount; int(n) > broken["init"]+broken["main"] {
			k.Errorf("killed %d ms after the creation: %d restarts are told, %v starts were broken off", i*350, n, broken)
		}
		for _, c := range []string{"init", "main"} {
			k.awaitLines(name+"-"+c, 1)
			if n := k.lines(name + "-" + c); n > 1+broken[c] {
				k.Errorf("killed %d ms after the creation: container %s started %d times, %v starts were broken off", i*350, c, n, broken)
			}
		}
		if running := k.running(k.T, pod.UID); len(running) != 1 {
			k.Errorf("running containers %v", running)
		}
	}
}

func nodeKilledWhilePodEnds(k *tester) {
	pod := k.awaitPodReady(k.create(k.pod("ending", `trap "touch /marks/term; exit 0" TERM; sleep 1d & while :; do wait; done`,
		grace(20), preStop(`echo x >> /marks/hook; sleep 4; echo x >> /marks/hook-ended`))))
	begin := time.Now()
	k.remove(pod)
	k.awaitMark("hook")
	k.killNode(k.T)
	k.restartNode(k.T)
	k.awaitGone(pod, usual)
	if took := time.Since(begin); took > 20*time.Second+slack+teardown {
		k.Errorf("the deletion took %v", took)
	}
	began, ended := k.lines("hook"), k.lines("hook-ended")
	if cut := k.hostEndsWithNode() && ended == 0; began != 1 || ended != 1 && !cut {
		k.Errorf("the hook began %d times and ended %d times", began, ended)
	}
	if term, hook := k.marked("term"), k.marked("hook-ended"); term.IsZero() || term.Before(hook) {
		k.Errorf("SIGTERM at %v, the hook ended at %v", term, hook)
	}
	k.awaitCollected(pod)
}

func killedHost(k *tester) {
	k.requireHostProcess()
	held := k.hold(k.create(k.pod("steady", `exec sleep 1d`)))
	deleted := k.awaitPodReady(k.create(k.pod("deleted", `trap "exit 0" TERM; sleep 1d & while :; do wait; done`, grace(120), preStop(`echo x >> /marks/hook`))))
	k.killHost(k.T)
	began := time.Now()
	eventually(k.T, 40*time.Second, "the node is NotReady and names the link", func() error {
		c, err := k.readyCondition(k.Context())
		if err != nil || c.Status == v1.ConditionTrue {
			return fmt.Errorf("%+v, %w", c, err)
		}
		if !strings.Contains(c.Message, k.target()) {
			return fmt.Errorf("the message does not name the link: %+v", c)
		}
		return nil
	})
	k.Logf("NotReady after %v", time.Since(began))
	if running := k.running(k.T, held.pod.UID); len(running) != 1 {
		k.Errorf("running containers without tombolo host: %v", running)
	}
	// What is wanted meanwhile happens afterwards.
	k.remove(deleted)
	wanted := k.create(k.pod("wanted", `exec sleep 1d`, func(p *v1.Pod) {
		p.Spec.NodeName = k.name // the scheduler would wait for the node
	}))
	time.Sleep(3 * time.Second)
	if got, err := k.get(deleted); err != nil || got.Status.Phase != v1.PodRunning {
		k.Errorf("a pod that cannot be reached was let go: %v", err)
	}
	must(k.T, k.reviveHost(k.Context()))
	began = time.Now()
	eventually(k.T, 10*time.Second, "the node is Ready again", func() error {
		c, err := k.readyCondition(k.Context())
		if err != nil || c.Status != v1.ConditionTrue {
			return fmt.Errorf("%+v, %w", c, err)
		}
		return nil
	})
	k.Logf("Ready again after %v", time.Since(began))
	k.awaitGone(deleted, usual)
	if n := k.lines("hook"); n != 1 {
		k.Errorf("the hook ran %d times", n)
	}
	k.awaitPodReady(wanted)
	k.requireUnchanged(held)
}

func hostBeforeContainerd(k *tester) {
	k.requireHostProcess()
	held := k.hold(k.create(k.pod("steady", `exec sleep 1d`)))
	k.stopHost()
	must(k.T, k.host.StopContainerd(k.Context()))
	must(k.T, k.reviveHost(k.Context()))
	eventually(k.T, usual, "the node is NotReady", func() error {
		c, err := k.readyCondition(k.Context())
		if err != nil || c.Status == v1.ConditionTrue {
			return fmt.Errorf("%+v, %w", c, err)
		}
		return nil
	})
	must(k.T, k.host.StartContainerd(k.Context()))
	must(k.T, k.awaitReady(k.Context()))
	k.requireUnchanged(held)
}

// clientsGoAway has kubectl killed in the middle of every kind of stream, many times.
func clientsGoAway(k *tester) {
	const rounds, tolerance = 5, 8
	k.webServer("web")
	k.awaitPodReady(k.create(k.pod("shell", `while :; do echo tick; sleep 1; done`)))
	streams := func() {
		ctx, cancel := context.WithCancel(k.Context())
		defer cancel()
		var ends []func() error
		for _, args := range [][]string{
			{"exec", "-i", "shell", "--", "cat"},
			{"logs", "-f", "shell"},
			{"attach", "shell"},
		} {
			cmd := k.kubectlCommand(ctx, args...)
			_, err := cmd.StdinPipe() // stays open
			must(k.T, err)
			must(k.T, cmd.Start())
			ends = append(ends, cmd.Wait)
		}
		address := k.forward(ctx, "web")
		must(k.T, fetch(ctx, address, "x"))
		time.Sleep(time.Second) // all of them flow
		cancel()                // SIGKILL
		for _, wait := range ends {
			_ = wait()
		}
	}
	streams() // makes whatever is made once
	time.Sleep(3 * time.Second)
	hostBefore, nodeBefore := k.goroutines()
	for range rounds {
		streams()
	}
	eventually(k.T, usual, "goroutines end with their clients", func() error {
		if h, n := k.goroutines(); h > hostBefore+tolerance || n > nodeBefore+tolerance {
			return fmt.Errorf("host %d, was %d; node %d, was %d", h, hostBefore, n, nodeBefore)
		}
		return nil
	})
	eventually(k.T, usual, "processes end with their clients", func() error {
		if ps := k.kubectl("exec", "shell", "--", "ps"); strings.Contains(ps, " cat\n") {
			return fmt.Errorf("there is\n%s", ps)
		}
		return nil
	})
}
