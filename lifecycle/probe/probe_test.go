// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/record"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// answer is what a program says to one try.
type answer struct {
	code int32
	out  string
	err  error
	hang bool
}

// world has containers that answer as they are told to.
type world struct {
	t        *testing.T
	m        *Manager
	recorder *record.FakeRecorder
	registry *prometheus.Registry

	mu       sync.Mutex
	pods     map[types.UID]*cri.PodStatus
	answers  map[string]answer // by container id
	tries    map[string][]time.Duration
	begin    time.Time
	commands [][]string
	requests []host.ProbeRequest
	running  map[string]int // exec tries under way
	most     int
	starting bool
	alive    bool // the runtime answers
	updates  []string
	stop     func()
}

func inWorld(t *testing.T, body func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			t: t, recorder: record.NewFakeRecorder(1000), pods: map[types.UID]*cri.PodStatus{}, answers: map[string]answer{},
			tries: map[string][]time.Duration{}, begin: time.Now(), running: map[string]int{}, alive: true,
			registry: prometheus.NewRegistry(),
		}
		w.m = New(Options{
			Runtime: w, Prober: w, Cache: w, Clock: clock.RealClock{}, Recorder: w.recorder, Registerer: w.registry,
			Starting: func(*v1.Pod, *cri.ContainerStatus) bool { w.mu.Lock(); defer w.mu.Unlock(); return w.starting },
			HostIP:   func() string { return "192.0.2.1" },
		})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { w.m.Run(ctx) })
		wg.Go(func() {
			for {
				select {
				case u := <-w.m.Updates():
					w.mu.Lock()
					w.updates = append(w.updates, fmt.Sprintf("%s %s %d", u.Kind, u.ContainerID, u.Result))
					w.mu.Unlock()
				case <-ctx.Done():
					return
				}
			}
		})
		w.stop = func() { cancel(); wg.Wait() }
		body(w)
		w.stop()
	})
}

func (w *world) Get(uid types.UID) (*cri.PodStatus, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods[uid], nil
}

func (w *world) try(ctx context.Context, id string) answer {
	w.mu.Lock()
	w.tries[id] = append(w.tries[id], time.Since(w.begin))
	a := w.answers[id]
	w.running[id]++
	w.most = max(w.most, w.running[id])
	w.mu.Unlock()
	defer func() { w.mu.Lock(); defer w.mu.Unlock(); w.running[id]-- }()
	if a.hang {
		<-ctx.Done()
		return answer{err: ctx.Err()}
	}
	return a
}

func (w *world) ExecSync(ctx context.Context, id string, cmd []string, _ time.Duration) (*runtimeapi.ExecSyncResponse, error) {
	w.mu.Lock()
	w.commands = append(w.commands, cmd)
	w.mu.Unlock()
	a := w.try(ctx, id)
	if a.err != nil {
		return nil, a.err
	}
	return &runtimeapi.ExecSyncResponse{ExitCode: a.code, Stdout: []byte(a.out)}, nil
}

func (w *world) ContainerStatus(ctx context.Context, _ string) (*runtimeapi.ContainerStatus, error) {
	w.mu.Lock()
	alive := w.alive
	w.mu.Unlock()
	if !alive {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &runtimeapi.ContainerStatus{State: runtimeapi.ContainerState_CONTAINER_RUNNING}, nil
}

func (w *world) Probe(ctx context.Context, req host.ProbeRequest) (*host.ProbeResult, error) {
	w.mu.Lock()
	w.requests = append(w.requests, req)
	w.mu.Unlock()
	a := w.try(ctx, "net")
	return &host.ProbeResult{Outcome: host.ProbeOutcome(a.code), Output: a.out}, a.err
}

func (w *world) answer(id string, a answer) { w.mu.Lock(); defer w.mu.Unlock(); w.answers[id] = a }

// shows sets the state of the pod's container.
func (w *world) shows(uid types.UID, id string, state cri.ContainerState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods[uid] = &cri.PodStatus{UID: uid, IPs: []string{"10.0.0.7"}, Containers: []cri.ContainerStatus{{ID: id, Name: "main", State: state}}}
}

func (w *world) triedAt(id string) []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tries[id]
}

func (w *world) events() []string {
	var out []string
	for {
		select {
		case e := <-w.recorder.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

func (w *world) expect(kind podrules.ProbeKind, id string, want podrules.ProbeResult) {
	w.t.Helper()
	synctest.Wait()
	if got := w.m.ProbeResult(kind, id); got != want {
		w.t.Errorf("%s of %s is %d after %s, want %d", kind, id, got, time.Since(w.begin), want)
	}
}

// pass lets time pass up to the given moment.
func (w *world) pass(until time.Duration) { time.Sleep(until - time.Since(w.begin)); synctest.Wait() }

func execProbe(edit ...func(*v1.Probe)) *v1.Probe {
	p := &v1.Probe{
		ProbeHandler:   v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"check", "$(A)", "$(B)"}}},
		TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3,
	}
	for _, e := range edit {
		e(p)
	}
	return p
}

func testPod(uid string, edit func(*v1.Container)) *v1.Pod {
	c := v1.Container{Name: "main", Env: []v1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", ValueFrom: &v1.EnvVarSource{}}}}
	edit(&c)
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Namespace: "ns", Name: "pod-" + uid},
		Spec:       v1.PodSpec{Containers: []v1.Container{c}},
	}
}

func liveness(edit ...func(*v1.Probe)) func(*v1.Container) {
	return func(c *v1.Container) { c.LivenessProbe = execProbe(edit...) }
}

func readiness(edit ...func(*v1.Probe)) func(*v1.Container) {
	return func(c *v1.Container) { c.ReadinessProbe = execProbe(edit...) }
}

func TestLivenessFailsAfterItsThresholdAndHoldsUntilTheNextContainer(t *testing.T) {
	inWorld(t, func(w *world) {
		w.shows("a", "1", cri.ContainerRunning)
		w.answer("1", answer{code: 7, out: "broken"})
		w.pass(time.Minute) // past the spread after a start of the process
		w.m.Sync(testPod("a", liveness()))
		w.pass(79 * time.Second)
		w.expect(podrules.LivenessProbe, "1", podrules.ProbeUnknown)
		w.pass(81 * time.Second)
		w.expect(podrules.LivenessProbe, "1", podrules.ProbeFailed)
		w.pass(5 * time.Minute)
		want := []time.Duration{60 * time.Second, 70 * time.Second, 80 * time.Second}
		if diff := cmp.Diff(want, w.triedAt("1")); diff != "" {
			t.Error(diff)
		}
		events := w.events()
		if len(events) != 3 || events[0] != "Warning Unhealthy Liveness probe failed: broken" {
			t.Errorf("events %q", events)
		}
		w.shows("a", "2", cri.ContainerRunning)
		w.pass(7 * time.Minute)
		w.expect(podrules.LivenessProbe, "2", podrules.ProbeSucceeded)
		w.expect(podrules.LivenessProbe, "1", podrules.ProbeUnknown)
		if diff := cmp.Diff([]string{"Liveness 1 2", "Liveness 2 1"}, w.updates); diff != "" {
			t.Error(diff)
		}
	})
}

func TestFailuresOfOneContainerDoNotCountAgainstTheNext(t *testing.T) { // B45
	inWorld(t, func(w *world) {
		w.shows("a", "1", cri.ContainerRunning)
		w.answer("1", answer{code: 1})
		w.answer("2", answer{code: 1})
		w.pass(time.Minute)
		w.m.Sync(testPod("a", liveness()))
		w.pass(75 * time.Second) // two failures
		w.shows("a", "2", cri.ContainerRunning)
		w.pass(95 * time.Second) // two more
		w.expect(podrules.LivenessProbe, "2", podrules.ProbeUnknown)
		w.pass(105 * time.Second)
		w.expect(podrules.LivenessProbe, "2", podrules.ProbeFailed)
	})
}

func TestSuccessBetweenFailuresStartsTheCountAnew(t *testing.T) {
	inWorld(t, func(w *world) {
		w.shows("a", "1", cri.ContainerRunning)
		w.answer("1", answer{code: 1})
		w.pass(time.Minute)
		w.m.Sync(testPod("a", liveness()))
		w.pass(75 * time.Second)
		w.answer("1", answer{})
		w.pass(85 * time.Second)
		w.answer("1", answer{code: 1})
		w.pass(105 * time.Second)
		w.expect(podrules.LivenessProbe, "1", podrules.ProbeSucceeded)
	})
}

func TestLostLinkIsNoFailureAndNoEvent(t *testing.T) {
	for _, lost := range []answer{
		{err: errdefs.ErrUnavailable}, {err: fmt.Errorf("no answer: %w", context.DeadlineExceeded)}, {err: context.Canceled}, {hang: true},
	} {
		t.Run(fmt.Sprint(lost.err), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.alive = false
				w.shows("a", "1", cri.ContainerRunning)
				w.shows("b", "net1", cri.ContainerRunning)
				w.answer("1", lost)
				w.answer("net", lost)
				w.m.Sync(testPod("a", liveness()))
				w.m.Sync(testPod("b", liveness(func(p *v1.Probe) {
					p.ProbeHandler = v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(80)}}
				})))
				w.pass(10 * time.Minute)
				w.expect(podrules.LivenessProbe, "1", podrules.ProbeUnknown)
				w.expect(podrules.LivenessProbe, "net1", podrules.ProbeUnknown)
				if events := w.events(); len(events) > 0 {
					t.Errorf("events %q", events)
				}
				if len(w.triedAt("1")) < 40 || len(w.triedAt("net")) < 40 {
					t.Errorf("only %d and %d tries: it is not asked every period", len(w.triedAt("1")), len(w.triedAt("net")))
				}
				w.answer("1", answer{})
				w.pass(11 * time.Minute)
				w.expect(podrules.LivenessProbe, "1", podrules.ProbeSucceeded)
			})
		})
	}
}

func TestCommandThatTheRuntimeStoppedIsAFailure(t *testing.T) { // B85
	inWorld(t, func(w *world) {
		w.shows("a", "1", cri.ContainerRunning)
		w.answer("1", answer{err: fmt.Errorf("%w after 1s", cri.ErrCommandTimedOut)})
		w.pass(time.Minute)
		w.m.Sync(testPod("a", liveness(func(p *v1.Probe) { p.FailureThreshold = 1 })))
		w.expect(podrules.LivenessProbe, "1", podrules.ProbeFailed)
		want := `Warning Unhealthy Liveness probe failed: command timed out: "check 1 $(B)" timed out after 1s`
		if diff := cmp.Diff([]string{want}, w.events()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestCommandThatIsNeverAnsweredIsAFailureIfTheRuntimeAnswers(t *testing.T) { // B85, `sh -c 'sleep 30 & wait'`
	inWorld(t, func(w *world) {
		w.shows("a", "1", cri.ContainerRunning)
		w.answer("1", answer{hang: true})
		w.pass(time.Minute)
		w.m.Sync(testPod("a", liveness(func(p *v1.Probe) { p.PeriodSeconds, p.FailureThreshold = 2, 2 })))
		w.pass(85 * time.Second)
		w.expect(podrules.LivenessProbe, "1", podrules.ProbeFailed)
		if w.most != 1 {
			t.Errorf("%d commands of one probe at once", w.most)
		}
	})
}

func TestErrorOfTheProbeIsTriedThreeTimesAndNotCounted(t *testing.T) {
	inWorld(t, func(w *world) {
		w.shows("a", "1", cri.ContainerRunning)
		w.answer("1", answer{err: errors.New("no such file")})
		w.pass(time.Minute)
		w.m.Sync(testPod("a", readiness(func(p *v1.Probe) { p.FailureThreshold = 1 })))
		w.expect(podrules.ReadinessProbe, "1", podrules.ProbeUnknown)
		if n := len(w.triedAt("1")); n != 3 {
			t.Errorf("%d tries, want 3", n)
		}
		want := []string{"Warning Unhealthy Readiness probe errored and resulted in unknown state: no such file"}
		if diff := cmp.Diff(want, w.events()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWarningIsASuccessAndIsTold(t *testing.T) {
	inWorld(t, func(w *world) {
		w.shows("a", "1", cri.ContainerRunning)
		w.answer("net", answer{code: int32(host.ProbeWarning), out: "Probe terminated redirects, Response body: x"})
		w.pass(time.Minute)
		w.m.Sync(testPod("a", readiness(func(p *v1.Probe) {
			p.ProbeHandler = v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt32(80)}}
		})))
		w.expect(podrules.ReadinessProbe, "1", podrules.ProbeSucceeded)
		want := []string{"Warning ProbeWarning Readiness probe warning: Probe terminated redirects, Response body: x"}
		if diff := cmp.Diff(want, w.events()); diff != "" {
			t.Error(diff)
		}
		if r := w.requests[0]; r.Timeout != time.Second || r.HTTPGet.Host != "10.0.0.7" {
			t.Errorf("request %+v", r)
		}
	})
}

func TestNothingElseIsAskedBeforeTheStartupProbeSucceeded(t *testing.T) {
	inWorld(t, func(w *world) {
		w.shows("a", "1", cri.ContainerRunning)
		w.answer("1", answer{code: 1})
		w.pass(time.Minute)
		w.m.Sync(testPod("a", func(c *v1.Container) {
			c.StartupProbe = execProbe(func(p *v1.Probe) { p.FailureThreshold = 30 })
			c.LivenessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: 1}}, PeriodSeconds: 600}
		}))
		w.pass(115 * time.Second)
		if len(w.triedAt("net")) != 0 {
			t.Fatal("liveness was asked before the container had started")
		}
		w.answer("net", answer{code: int32(host.ProbeSuccess)})
		w.answer("1", answer{})
		w.pass(121 * time.Second)
		w.expect(podrules.StartupProbe, "1", podrules.ProbeSucceeded)
		w.expect(podrules.LivenessProbe, "1", podrules.ProbeSucceeded) // at once, long before its period
		tries := len(w.triedAt("1"))
		w.pass(5 * time.Minute)
		if n := len(w.triedAt("1")); n != tries {
			t.Error("the startup probe goes on after it succeeded")
		}
	})
}

func TestWhatHappensToThePodBringsNoFailuresCloserTogether(t *testing.T) {
	for name, edit := range map[string]func(*v1.Container){
		"liveness": liveness(),
		"startup":  func(c *v1.Container) { c.StartupProbe = execProbe() },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.pass(time.Minute)
				pod := testPod("a", edit)
				w.m.Sync(pod)
				w.pass(65 * time.Second)
				w.shows("a", "1", cri.ContainerRunning)
				w.answer("1", answer{code: 1})
				for at := 65 * time.Second; at < 90*time.Second; at += 3 * time.Second {
					w.pass(at)
					w.m.Sync(pod) // as after the end of another container, or a new label
				}
				w.pass(2 * time.Minute)
				want := []time.Duration{65 * time.Second, 75 * time.Second, 85 * time.Second}
				if diff := cmp.Diff(want, w.triedAt("1")); diff != "" {
					t.Errorf("tried at (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestStartedContainerIsNotStartedAgainAfterARestartOfTheProcess(t *testing.T) {
	inWorld(t, func(w *world) {
		w.shows("a", "1", cri.ContainerRunning)
		w.answer("1", answer{code: 1})
		pod := testPod("a", func(c *v1.Container) { c.StartupProbe = execProbe() })
		pod.Status.ContainerStatuses = []v1.ContainerStatus{{
			Name: "main", ContainerID: "containerd://1", Started: new(true), State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
		}}
		w.m.Sync(pod)
		w.pass(10 * time.Minute)
		w.expect(podrules.StartupProbe, "1", podrules.ProbeSucceeded)
		if n := len(w.triedAt("1")); n != 0 {
			t.Errorf("%d tries", n)
		}
		w.shows("a", "2", cri.ContainerRunning)
		w.answer("2", answer{code: 1})
		w.pass(20 * time.Minute)
		w.expect(podrules.StartupProbe, "2", podrules.ProbeFailed)
	})
}

func TestInitialDelayCountsFromWhenTheContainerWasSeenToRun(t *testing.T) {
	inWorld(t, func(w *world) {
		w.shows("a", "1", cri.ContainerCreated)
		pod := testPod("a", readiness(func(p *v1.Probe) { p.InitialDelaySeconds = 25 }))
		w.m.Sync(pod)
		w.pass(33 * time.Second)
		w.shows("a", "1", cri.ContainerRunning)
		w.m.Sync(pod)
		w.pass(2 * time.Minute)
		if tries := w.triedAt("1"); len(tries) == 0 || tries[0] != 58*time.Second {
			t.Errorf("tried at %v, want 58s first", tries)
		}
	})
}

func TestContainerIsNotAskedDuringItsPostStartHook(t *testing.T) {
	inWorld(t, func(w *world) {
		w.starting = true
		w.shows("a", "1", cri.ContainerRunning)
		w.m.Sync(testPod("a", readiness()))
		w.pass(time.Minute)
		if len(w.triedAt("1")) != 0 {
			t.Error("it was asked")
		}
		w.mu.Lock()
		w.starting = false
		w.mu.Unlock()
		w.pass(75 * time.Second)
		w.expect(podrules.ReadinessProbe, "1", podrules.ProbeSucceeded)
	})
}

func TestTriesAreSpreadOnlyAfterAStartOfTheProcess(t *testing.T) {
	inWorld(t, func(w *world) {
		first := map[time.Duration]bool{}
		for i := range 20 {
			uid := fmt.Sprint("old-", i)
			w.shows(types.UID(uid), uid, cri.ContainerRunning)
			w.m.Sync(testPod(uid, liveness()))
		}
		w.shows("new", "new", cri.ContainerCreated)
		pod := testPod("new", liveness())
		w.m.Sync(pod)
		w.pass(2 * time.Second)
		w.shows("new", "new", cri.ContainerRunning)
		w.m.Sync(pod)
		w.pass(20 * time.Second)
		for i := range 20 {
			at := w.triedAt(fmt.Sprint("old-", i))[0]
			first[at.Truncate(time.Second)] = true
			if at >= 10*time.Second {
				t.Errorf("first asked after %s, more than one period", at)
			}
		}
		if len(first) < 3 {
			t.Errorf("all were asked at the same time: %v", first)
		}
		if at := w.triedAt("new")[0]; at != 2*time.Second {
			t.Errorf("a new container was asked at %s, want at once", at)
		}
	})
}

func TestOnlyReadinessIsAskedWhileThePodTerminates(t *testing.T) {
	inWorld(t, func(w *world) {
		w.shows("a", "1", cri.ContainerRunning)
		w.pass(time.Minute)
		w.m.Sync(testPod("a", func(c *v1.Container) { liveness()(c); readiness()(c) }))
		w.expect(podrules.ReadinessProbe, "1", podrules.ProbeSucceeded)
		w.answer("1", answer{code: 1})
		w.m.StopStartupAndLiveness("a")
		w.pass(95 * time.Second)
		w.expect(podrules.ReadinessProbe, "1", podrules.ProbeFailed)
		w.expect(podrules.LivenessProbe, "1", podrules.ProbeSucceeded)
		w.m.Remove("a")
		w.pass(100 * time.Second)
		tries := len(w.triedAt("1"))
		w.pass(5 * time.Minute)
		if n := len(w.triedAt("1")); n != tries {
			t.Error("a removed pod is asked")
		}
		w.expect(podrules.ReadinessProbe, "1", podrules.ProbeUnknown)
		if n := len(w.m.results.by); n != 0 {
			t.Errorf("%d results of a removed pod are kept", n)
		}
	})
}

func TestSidecarThatHasNotStartedIsNotSaidToHaveWhenItsPodTerminates(t *testing.T) {
	inWorld(t, func(w *world) {
		w.shows("a", "1", cri.ContainerRunning)
		w.answer("1", answer{code: 1})
		w.pass(time.Minute)
		pod := testPod("a", func(c *v1.Container) {
			c.StartupProbe = execProbe(func(p *v1.Probe) { p.FailureThreshold = 100 })
			c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		})
		pod.Spec.InitContainers, pod.Spec.Containers = pod.Spec.Containers, nil
		w.m.Sync(pod)
		w.pass(65 * time.Second)
		w.m.StopStartupAndLiveness("a")
		w.pass(5 * time.Minute)
		w.expect(podrules.StartupProbe, "1", podrules.ProbeUnknown)
		if n := len(w.triedAt("1")); n != 25 {
			t.Errorf("%d tries in four minutes, want one in each period", n)
		}
		w.m.Remove("a")
	})
}

func TestContainerWhoseStateTheRuntimeLostIsNotHeldToHaveFailed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.shows("a", "1", cri.ContainerRunning)
		w.pass(time.Minute)
		w.m.Sync(testPod("a", func(c *v1.Container) { liveness()(c); readiness()(c) }))
		w.pass(61 * time.Second)
		w.shows("a", "1", cri.ContainerUnknown)
		w.pass(3 * time.Minute)
		w.expect(podrules.LivenessProbe, "1", podrules.ProbeSucceeded)
		w.expect(podrules.ReadinessProbe, "1", podrules.ProbeSucceeded)
	})
}

func TestHangingProbesDelayNoOther(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pass(time.Minute)
		for i := range 100 {
			uid := fmt.Sprint("hang-", i)
			w.shows(types.UID(uid), uid, cri.ContainerRunning)
			w.answer(uid, answer{hang: true})
			w.m.Sync(testPod(uid, liveness(func(p *v1.Probe) { p.TimeoutSeconds = 3600 })))
		}
		w.shows("a", "1", cri.ContainerRunning)
		w.m.Sync(testPod("a", liveness()))
		w.pass(10*time.Minute + time.Second)
		for i, at := range w.triedAt("1") {
			if want := time.Minute + time.Duration(i)*10*time.Second; at != want {
				t.Errorf("try %d at %s, want %s", i, at, want)
			}
		}
		if n := len(w.triedAt("1")); n != 55 {
			t.Errorf("%d tries, want 55", n)
		}
		if w.most != 1 {
			t.Errorf("%d tries of one probe at once", w.most)
		}
	})
}

func TestTriesAreCountedUntilThePodIsRemoved(t *testing.T) {
	inWorld(t, func(w *world) {
		w.shows("a", "1", cri.ContainerRunning)
		w.pass(time.Minute)
		w.m.Sync(testPod("a", readiness()))
		w.pass(85 * time.Second)
		want := `# HELP prober_probe_total Cumulative number of a liveness, readiness or startup probe for a container by result.
# TYPE prober_probe_total counter
prober_probe_total{container="main",namespace="ns",pod="pod-a",pod_uid="a",probe_type="Readiness",result="successful"} 3
`
		if err := testutil.GatherAndCompare(w.registry, strings.NewReader(want), "prober_probe_total"); err != nil {
			t.Error(err)
		}
		w.m.Remove("a")
		synctest.Wait()
		if n, _ := testutil.GatherAndCount(w.registry); n != 0 {
			t.Errorf("%d series of a removed pod", n)
		}
	})
}
