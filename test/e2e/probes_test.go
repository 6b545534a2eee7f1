// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tombolo-dev/tombolo/test/images"
)

// httpPort is where web servers of pods listen.
const httpPort = 8080

// probe is made every second and counts from the given number of failures on.
func probe(failures int32, handler v1.ProbeHandler) *v1.Probe {
	return &v1.Probe{ProbeHandler: handler, PeriodSeconds: 1, TimeoutSeconds: 1, FailureThreshold: failures}
}

func execHandler(script string) v1.ProbeHandler {
	return v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"sh", "-c", script}}}
}

func httpHandler(path string) v1.ProbeHandler {
	return v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: path, Port: intstr.FromInt32(httpPort)}}
}

func liveness(p *v1.Probe) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.Spec.Containers[0].LivenessProbe = p }
}

func readiness(p *v1.Probe) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.Spec.Containers[0].ReadinessProbe = p }
}

func startup(p *v1.Probe) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.Spec.Containers[0].StartupProbe = p }
}

// runsAgain is a pod whose main container runs after as many restarts.
func runsAgain(restarts int32) func(*v1.Pod) error {
	return func(p *v1.Pod) error {
		if c := p.Status.ContainerStatuses; len(c) > 0 && c[0].RestartCount == restarts && c[0].State.Running != nil {
			return nil
		}
		return fmt.Errorf("containers %+v", p.Status.ContainerStatuses)
	}
}

func notReady(pod *v1.Pod) error {
	if ready(pod) == nil {
		return fmt.Errorf("it is Ready")
	}
	return nil
}

// TestFailedLivenessProbeRestartsTheContainer: each kind of probe, and what a kubelet says when it fails.
func TestFailedLivenessProbeRestartsTheContainer(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	// Each container serves while its mark is there and makes the mark anew when it starts.
	serve := func(name string) string {
		return fmt.Sprintf(`touch /marks/%[1]s; httpd -f -p %[2]d -h /marks & while [ -e /marks/%[1]s ]; do sleep 0.1; done; kill $!; exec sleep 1d`, name, httpPort)
	}
	for _, tc := range []struct {
		name, script string
		handler      v1.ProbeHandler
		output       string
	}{
		{"exec", `touch /marks/exec; exec sleep 1d`, execHandler(`cat /marks/exec`), "cat: can't open '/marks/exec': No such file or directory"},
		{"http", fmt.Sprintf(`touch /marks/http; exec httpd -f -p %d -h /marks`, httpPort), httpHandler("/http"), "HTTP probe failed with statuscode: 404"},
		{"tcp", serve("tcp"), v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(httpPort)}}, ": connect: connection refused"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := k.part(t)
			// A web server needs a moment to listen, and nobody calls it broken for that.
			pod := k.awaitPodReady(k.create(k.pod(tc.name, tc.script, liveness(probe(2, tc.handler)), startup(probe(60, tc.handler)))))
			must(t, os.Remove(k.mark(tc.name)))
			begin := time.Now()
			pod = k.await(pod, usual, "was restarted", runsAgain(1))
			t.Logf("restarted %.1f s after the program had broken", time.Since(begin).Seconds())
			k.requireKilledByProbe(pod, "Liveness", tc.output)
			k.awaitPodReady(pod)
		})
	}
	t.Run("grpc", func(t *testing.T) {
		k := k.part(t)
		handler := v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: 5000}}
		pod := k.awaitPodReady(k.create(k.pod("grpc", "", liveness(probe(2, handler)), startup(probe(60, handler)), func(p *v1.Pod) {
			p.Spec.Containers[0].Image, p.Spec.Containers[0].Command = images.Agnhost, nil
			p.Spec.Containers[0].Args = []string{"grpc-health-checking"} // on port 5000, told over HTTP on 8080
		})))
		_, err := k.page(fmt.Sprintf("http://%s:%d/make-not-serving", pod.Status.PodIP, httpPort))
		must(t, err)
		pod = k.await(pod, usual, "was restarted", runsAgain(1))
		k.requireKilledByProbe(pod, "Liveness", `service unhealthy (responded with "NOT_SERVING")`)
		k.awaitPodReady(pod)
	})
}

// requireKilledByProbe checks the events and the status of a container that was restarted once since its probe had failed.
func (k *tester) requireKilledByProbe(pod *v1.Pod, kind, output string) {
	k.Helper()
	k.awaitEvent(pod, "Unhealthy", kind+" probe failed: ")
	k.awaitEvent(pod, "Unhealthy", output)
	k.awaitEvent(pod, "Killing", "Container main failed "+strings.ToLower(kind)+" probe, will be restarted")
	if last := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated; last == nil || last.ContainerID == pod.Status.ContainerStatuses[0].ContainerID {
		k.Errorf("last state %+v", last)
	}
}

// TestReadinessProbeMovesThePodInAndOut, and does nothing else.
func TestReadinessProbeMovesThePodInAndOut(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.create(k.pod("moody", `exec sleep 1d`, readiness(probe(1, execHandler(`cat /marks/ready`)))))
	pod = k.await(pod, usual, "runs", runsAgain(0))
	k.awaitEvent(pod, "Unhealthy", "Readiness probe failed: cat: can't open '/marks/ready'")
	k.await(pod, usual, "is not Ready", notReady)
	for range 2 {
		k.put("ready")
		begin := time.Now()
		k.awaitPodReady(pod)
		in := time.Since(begin)
		must(t, os.Remove(k.mark("ready")))
		begin = time.Now()
		pod = k.await(pod, usual, "is not Ready", notReady)
		t.Logf("in after %.1f s, out after %.1f s", in.Seconds(), time.Since(begin).Seconds())
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodReady && (c.Reason != "ContainersNotReady" || c.Message != "containers with unready status: [main]") {
			t.Errorf("condition %+v", c)
		}
	}
	if c := pod.Status.ContainerStatuses[0]; c.RestartCount != 0 || c.Ready || c.Started == nil || !*c.Started {
		t.Errorf("container %+v", c)
	}
}

// TestStartupProbeHoldsTheOthersBack: until it has succeeded the container is not asked whether it lives, and is not ready.
func TestStartupProbeHoldsTheOthersBack(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.create(k.pod("slow", `exec sleep 1d`, startup(probe(60, execHandler(`echo x >> /marks/startup; test -e /marks/started`))),
		liveness(probe(1, execHandler(`echo x >> /marks/liveness; test -e /marks/started`)))))
	eventually(t, usual, "some tries of the startup probe", func() error {
		if k.lines("startup") < 3 {
			return errNotYet
		}
		return nil
	})
	got, err := k.get(pod)
	must(t, err)
	if c := got.Status.ContainerStatuses[0]; c.Started == nil || *c.Started || c.Ready || c.RestartCount != 0 {
		t.Errorf("container that has not started: %+v", c)
	}
	if n := k.lines("liveness"); n != 0 {
		t.Errorf("%d tries of the liveness probe before the container had started", n)
	}
	k.put("started")
	k.awaitPodReady(pod)
	k.awaitMark("liveness")
	tries := k.lines("startup")
	time.Sleep(3 * time.Second)
	if n := k.lines("startup"); n != tries {
		t.Errorf("%d tries of the startup probe after it had succeeded", n-tries)
	}
	k.requireUntouched(pod)
}

func TestContainerThatDoesNotStartInTimeIsRestarted(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.create(k.pod("late", `echo x >> /marks/starts; exec sleep 1d`, startup(probe(2, execHandler(`test $(wc -l < /marks/starts) -ge 2`)))))
	pod = k.await(pod, usual, "was restarted", runsAgain(1))
	k.requireKilledByProbe(pod, "Startup", "")
	k.awaitPodReady(pod)
}

// TestHangingExecProbesDelayNobodyAndLeaveFewProcesses: one is a program that ignores its time, one leaves a child that holds its output
// open.
func TestHangingExecProbesDelayNobodyAndLeaveFewProcesses(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	const never = 1000
	var hung []*v1.Pod
	scripts := []string{`exec sleep 1000`, `sleep 30 & wait`}
	for i, script := range scripts {
		hung = append(hung, k.create(k.pod(fmt.Sprintf("hung-%d", i), `exec sleep 1d`, liveness(probe(never, execHandler(script))))))
	}
	for _, pod := range hung {
		k.awaitPodReady(pod)
		k.awaitEvent(pod, "Unhealthy", "Liveness probe failed: command timed out: ")
	}
	begin := time.Now()
	other := k.awaitPodReady(k.create(k.pod("other", `exec sleep 1d`, readiness(probe(1, execHandler("true"))))))
	t.Logf("another pod was Ready after %.1f s", time.Since(begin).Seconds())
	most := make([]int, len(hung))
	for time.Since(begin) < 20*time.Second {
		for i, pod := range hung {
			most[i] = max(most[i], strings.Count(k.kubectl("exec", pod.Name, "--", "ps"), "sleep ")-1)
		}
		time.Sleep(time.Second)
	}
	t.Logf("at most %v processes of the probes %q", most, scripts)
	if most[0] > 2 || most[1] > 5 {
		t.Errorf("processes of probes add up: %v", most)
	}
	for _, pod := range append(hung, other) {
		k.requireUntouched(pod)
	}
}

func TestExecProbeThatHangsCountsAsFailed(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	for name, script := range map[string]string{"plain": `exec sleep 1000`, "child": `sleep 30 & wait`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := k.part(t)
			pod := k.create(k.pod(name, `exec sleep 1d`, liveness(probe(2, execHandler(script)))))
			pod = k.await(pod, usual, "runs", runsAgain(0))
			begin := pod.Status.ContainerStatuses[0].State.Running.StartedAt
			pod = k.await(pod, usual, "was restarted", runsAgain(1))
			t.Logf("killed %v after the start", pod.Status.ContainerStatuses[0].LastTerminationState.Terminated.FinishedAt.Sub(begin.Time))
			k.requireKilledByProbe(pod, "Liveness", "timed out after 1s")
		})
	}
}

// eventsOf are the events about the pod with the reason.
func (k *tester) eventsOf(pod *v1.Pod, reason string) []v1.Event {
	k.Helper()
	list, err := k.client().CoreV1().Events(k.namespace).List(k.Context(), metav1.ListOptions{
		FieldSelector: "reason=" + reason + ",involvedObject.uid=" + string(pod.UID),
	})
	must(k.T, err)
	return list.Items
}
