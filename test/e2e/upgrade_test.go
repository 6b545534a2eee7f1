// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/test/previous"
	"github.com/tombolo-dev/tombolo/test/testbed"
)

// formerBinary builds the program that users upgrade from, for all tests that want it.
var formerBinary = sync.OnceValues(func() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), setUpTimeout)
	defer cancel()
	begin := time.Now()
	commit, err := previous.Commit(ctx, ".")
	if err != nil {
		return "", err
	}
	cache, err := testbed.CacheDir()
	if err != nil {
		return "", err
	}
	binary, err := previous.Build(ctx, ".", commit, cache)
	fmt.Printf("tombolo of commit %.12s is the previous version (%.1f s)\n", commit, time.Since(begin).Seconds())
	return binary, err
})

// requireFormer skips the test if there is no previous version.
func requireFormer(t *testing.T) string {
	t.Helper()
	binary, err := formerBinary()
	if errors.Is(err, previous.ErrNoHistory) {
		t.Skip(err)
	}
	must(t, err)
	return binary
}

// TestUpgradeOfEitherEnd replaces each process by its previous version and back, in either order, so that each version of the node
// meets each version of the host.
func TestUpgradeOfEitherEnd(t *testing.T) {
	t.Parallel()
	e := require(t)
	former := requireFormer(t)
	s := e.newSite("slipway")
	s.hostBinary, s.nodeBinary = former, former
	s.startFor(t)
	v := board(t, s)
	const node, host = true, false
	for _, next := range []struct {
		node   bool
		binary string
	}{
		{node, e.binary}, {host, e.binary}, {node, former}, {host, former}, // the node first
		{host, e.binary}, {node, e.binary}, {host, former}, {node, former}, // the host first
	} {
		v.replace(func() {
			if next.node {
				must(t, s.nodeProc.Stop(t.Context()))
				s.nodeBinary = next.binary
				must(t, s.startNode())
				return
			}
			must(t, s.hostProc.Stop(t.Context()))
			s.hostBinary = next.binary
			must(t, s.startHost())
		})
	}
}

// TestUpgradeOverSSH replaces the node, which brings its own program to the host.
func TestUpgradeOverSSH(t *testing.T) {
	t.Parallel()
	e := require(t)
	former := requireFormer(t)
	s := e.newSite("drydock")
	s.sshUser, s.nodeBinary = testbed.SSHUser, former
	s.startFor(t)
	v := board(t, s)
	for _, binary := range []string{e.binary, former} {
		v.replace(func() {
			must(t, s.nodeProc.Stop(t.Context()))
			s.nodeBinary = binary
			must(t, s.startNode())
		})
		if pids := s.hostProcesses(t); len(pids) == 0 {
			t.Error("no process of ours on the host")
		}
	}
	log, err := os.ReadFile(s.nodeProc.LogFile())
	must(t, err)
	if n := strings.Count(string(log), "the program is put on the host"); n != 2 {
		t.Errorf("programs were put on the host %d times, want each of the two once", n)
	}
}

// voyage is what has to outlive the replacement of processes.
type voyage struct {
	*tester
	held []unchanged
	// leg counts the replacements, passenger is the pod that began in the last one.
	leg       int
	passenger *v1.Pod
}

// waits is a script that ends when it is told to.
const waits = `trap "exit 0" TERM; echo running; sleep 1d & while :; do wait; done`

// board starts the pods.
func board(t *testing.T, s *site) *voyage {
	t.Helper()
	v := &voyage{tester: on(t, s)}
	_, err := v.tryKubectl(nil, "create", "configmap", "chart", "--from-literal=course=north")
	must(t, err)
	crew := v.create(v.pod("crew", waits, initContainer("init", `echo x >> /marks/init`), inEveryWay, everywhere))
	probed := v.create(v.pod("probed", waits, everywhere, func(p *v1.Pod) {
		// Fails at once if a file is gone, so it must not be tried in vain.
		p.Spec.Containers[0].LivenessProbe = &v1.Probe{FailureThreshold: 1, PeriodSeconds: 1, TimeoutSeconds: 30, ProbeHandler: v1.ProbeHandler{
			Exec: &v1.ExecAction{Command: []string{"true"}},
		}}
	}))
	// One that has a restart behind it.
	again := v.create(v.pod("again", `echo x >> /marks/again; [ $(wc -l < /marks/again) -ge 2 ] || exit 1; `+waits, everywhere))
	v.await(again, usual, "runs after a restart", func(p *v1.Pod) error {
		if len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount == 1 {
			return ready(p)
		}
		return errNotYet
	})
	for _, pod := range []*v1.Pod{crew, probed, again} {
		v.held = append(v.held, v.hold(pod))
	}
	v.takePassenger()
	return v
}

// inEveryWay gives a pod volumes of each kind that the host writes, and a sidecar.
func inEveryWay(p *v1.Pod) {
	always := v1.ContainerRestartPolicyAlways
	sidecar := shell("sidecar", waits)
	sidecar.RestartPolicy = &always
	p.Spec.InitContainers = append(p.Spec.InitContainers, sidecar)
	p.Spec.Volumes = append(p.Spec.Volumes,
		v1.Volume{Name: "chart", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "chart"}}}},
		v1.Volume{Name: "hold", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}},
		v1.Volume{Name: "token", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}},
		}}}})
	p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts,
		v1.VolumeMount{Name: "chart", MountPath: "/chart"}, v1.VolumeMount{Name: "hold", MountPath: "/hold"}, v1.VolumeMount{Name: "token", MountPath: "/token"})
}

// takePassenger starts a pod under the versions of now, which is to end under the next ones.
func (v *voyage) takePassenger() {
	v.Helper()
	name := fmt.Sprintf("passenger-%d", v.leg)
	v.passenger = v.awaitPodReady(v.create(v.pod(name, waits, inEveryWay, everywhere, restart(v1.RestartPolicyNever), grace(30), preStop(`echo x >> /marks/`+name))))
}

// replace replaces a process, and sees that nothing changes but that streams have to be opened again.
func (v *voyage) replace(process func()) {
	v.Helper()
	v.leg++
	line := fmt.Sprintf("leg %d", v.leg)
	ctx, cancel := context.WithCancel(v.Context())
	defer cancel()
	shell := v.stream(ctx, "exec", "-i", "crew", "-c", "main", "--", "cat")
	log := v.stream(ctx, "logs", "-f", "crew", "-c", "main")
	_, err := io.WriteString(shell.in, line+"\n")
	must(v.T, err)
	shell.out.await(v.T, line)
	log.out.await(v.T, "running")

	process()

	must(v.T, v.awaitReady(v.Context()))
	for _, s := range []*stream{shell, log} {
		select {
		case <-s.ended:
		case <-time.After(usual):
			v.Fatalf("kubectl %v did not end with the process that it was served by", s.cmd.Args)
		}
	}
	v.requireStreams(line)
	v.requireEnd(v.passenger)
	for _, held := range v.held {
		v.requireUnchanged(held)
	}
	if n := v.lines("init"); n != 1 {
		v.Errorf("an init container ran %d times", n)
	}
	v.takePassenger()
}

// stream is a kubectl that runs until its stream ends.
type stream struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *lookout
	ended chan struct{}
}

// stream starts kubectl.
func (v *voyage) stream(ctx context.Context, args ...string) *stream {
	v.Helper()
	s := &stream{cmd: v.kubectlCommand(ctx, args...), out: &lookout{lines: make(chan string, 1000)}, ended: make(chan struct{})}
	s.cmd.Stdout = s.out
	var err error
	s.in, err = s.cmd.StdinPipe()
	must(v.T, err)
	must(v.T, s.cmd.Start())
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait()
	}()
	v.Cleanup(func() { <-s.ended }) // the context has ended by then
	return s
}

// requireStreams opens streams again: a command writes to the log that another one follows from its beginning.
func (v *voyage) requireStreams(line string) {
	v.Helper()
	ctx, cancel := context.WithCancel(v.Context())
	defer cancel()
	eventually(v.T, usual, "a log by way of the new process", func() error { // the API may show the node Ready from before
		got, err := v.tryKubectl(nil, "logs", "crew", "-c", "main")
		if err == nil && !strings.Contains(got, "running") {
			err = fmt.Errorf("it is %q", got)
		}
		return err
	})
	log := v.stream(ctx, "logs", "-f", "crew", "-c", "main")
	log.out.await(v.T, "running")
	got := v.kubectl("exec", "crew", "-c", "main", "--", "sh", "-c", `echo "`+line+`" > /proc/1/fd/1; cat /chart/course; test -s /token/token; echo x >> /hold/x; wc -l < /hold/x`)
	if want := fmt.Sprintf("north%d\n", v.leg); got != want {
		v.Errorf("exec printed %q, want %q", got, want)
	}
	log.out.await(v.T, line)
	if text := log.out.all.String(); strings.Count(text, "leg ") != v.leg {
		v.Errorf("the log has not each of %d lines once: %q", v.leg, text)
	}
}

// requireEnd ends a pod that was started under other versions: by itself, or with its hook.
func (v *voyage) requireEnd(pod *v1.Pod) {
	v.Helper()
	hooks := 0
	if v.leg%2 == 0 {
		hooks = 1
	} else {
		_, _ = v.tryKubectl(nil, "exec", pod.Name, "-c", "main", "--", "kill", "1") // which the end of the container may kill in turn
		v.awaitPhase(pod, v1.PodSucceeded)
	}
	v.remove(pod)
	v.awaitGone(pod, usual)
	if n := v.lines(pod.Name); n != hooks {
		v.Errorf("the hook of pod %s ran %d times, want %d", pod.Name, n, hooks)
	}
	v.awaitCollected(pod)
	if left, _ := filepath.Glob(filepath.Join(v.rootDir(), "*", string(pod.UID))); len(left) > 0 {
		v.Errorf("left of pod %s: %v", pod.Name, left)
	}
}
