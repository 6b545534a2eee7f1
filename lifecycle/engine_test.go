// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

// world is an API, a runtime and a host that outlive the engines run against them.
type world struct {
	t    *testing.T
	api  *fakeAPI
	cri  *fakecri.Runtime
	host *fakeHost
	// objects are what pods refer to.
	objects *fakeObjects
	stop    func()
	// maxPods is for engines started from now on.
	maxPods int
	// node is what engines started from now on know of the node; nil is nothing.
	node     func() *v1.Node
	recorder *record.FakeRecorder
	// metrics are those of the newest engine.
	metrics *prometheus.Registry
	engine  *Engine
}

// inWorld runs body with an engine running, in a bubble with a fake clock.
func inWorld(t *testing.T, body func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, api: newFakeAPI(), host: newFakeHost(), objects: newFakeObjects(), maxPods: 110, recorder: record.NewFakeRecorder(10000)}
		w.cri = fakecri.Start(t, fakecri.Options{Identity: testIdentity})
		w.api.onDelete = func(types.UID) {}
		w.start()
		body(w)
		w.stop()
	})
}

func (w *world) start() {
	ctx, cancel := context.WithCancel(w.t.Context())
	w.metrics = prometheus.NewRegistry()
	e, err := New(Options{
		Registerer: w.metrics,
		Source:     w.api.source(), Runtime: w.cri.Client(), Host: w.host, Machine: fakeMachine{}, Objects: w.objects, Sink: w.api,
		Recorder: w.recorder, Identity: testIdentity, ClusterDomain: "cluster.local", MaxPods: w.maxPods,
		Node: w.node, Clock: clock.RealClock{}, Logger: slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.engine = e
	done := make(chan struct{})
	go func() { defer close(done); _ = e.Run(ctx) }()
	w.stop = func() { cancel(); <-done }
}

func (w *world) restart() { w.stop(); w.start() }

// eventually waits for cond in fake time.
func (w *world) eventually(what string, within time.Duration, cond func() bool) {
	w.t.Helper()
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		synctest.Wait()
		if cond() {
			return
		}
	}
	for uid, p := range w.api.pods {
		w.t.Logf("status of %s: %+v", uid, p.Status)
	}
	for _, c := range w.cri.Calls() {
		w.t.Logf("%s %s %s %s", c.At.Format(time.TimeOnly), c.Method, c.UID, c.Container)
	}
	w.t.Fatalf("not within %s: %s", within, what)
}

func testPod(uid string, edit ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Namespace: "ns", Name: "pod-" + uid, CreationTimestamp: metav1.Now()},
		Spec: v1.PodSpec{
			NodeName: "n", RestartPolicy: v1.RestartPolicyAlways, DNSPolicy: v1.DNSDefault,
			TerminationGracePeriodSeconds: ptr.To[int64](30), EnableServiceLinks: ptr.To(true),
			SecurityContext: &v1.PodSecurityContext{}, SchedulerName: "default-scheduler",
			Containers: []v1.Container{testContainer("main")},
		},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
	for _, e := range edit {
		e(p)
	}
	return p
}

func testContainer(name string) v1.Container {
	return v1.Container{
		Name: name, Image: "busybox:1", ImagePullPolicy: v1.PullIfNotPresent,
		TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: v1.TerminationMessageReadFile,
	}
}

func withPreStop(p *v1.Pod) {
	p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{
		PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"/bin/bye"}}},
	}
}

func withInit(p *v1.Pod) { p.Spec.InitContainers = []v1.Container{testContainer("init")} }

func (w *world) running(uid types.UID) func() bool {
	return func() bool {
		p := w.api.get(uid)
		return p != nil && p.Status.Phase == v1.PodRunning && ready(p)
	}
}

func ready(p *v1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

func (w *world) gone(uid types.UID) func() bool { return func() bool { return w.api.get(uid) == nil } }

// guardI1 fails the test when the API object goes while a container of it runs (I1).
func (w *world) guardI1() {
	w.api.onDelete = func(uid types.UID) {
		if r := w.cri.Running(uid); len(r) > 0 {
			w.t.Errorf("the API object of %s is deleted while %v runs", uid, r)
		}
	}
}

func TestPodRunsAndIsDeletedOnlyAfterItsContainersStopped(t *testing.T) {
	inWorld(t, func(w *world) {
		w.guardI1()
		w.cri.Behave(fakecri.Selector{Container: "main"}, fakecri.Behaviour{OnTERM: fakecri.TERM{After: 5 * time.Second}})
		w.api.create(testPod("a", withPreStop))
		w.eventually("running", 10*time.Second, w.running("a"))
		w.api.delete("a", 30)
		begin := time.Now()
		w.eventually("gone", 15*time.Second, w.gone("a"))
		if took := time.Since(begin); took < 5*time.Second {
			t.Errorf("gone after %s, before its container ended", took)
		}
		if n := len(w.host.hookRuns()); n != 1 {
			t.Errorf("preStop ran %d times", n)
		}
	})
}

func TestNothingIsTouchedByARestart(t *testing.T) {
	inWorld(t, func(w *world) {
		w.guardI1()
		for i := range 5 {
			w.api.create(testPod(fmt.Sprint(i), withInit))
		}
		w.cri.Behave(fakecri.Selector{Container: "init"}, fakecri.Behaviour{Exits: true, ExitAfter: time.Second})
		for i := range 5 {
			w.eventually("running", 30*time.Second, w.running(types.UID(fmt.Sprint(i))))
		}
		creates := len(w.cri.Calls("CreateContainer"))
		for range 3 {
			w.restart()
			time.Sleep(2 * time.Minute)
		}
		if n := len(w.cri.Calls("CreateContainer")); n != creates {
			t.Errorf("%d containers were created by restarts", n-creates)
		}
		if n := len(w.cri.Calls("StopContainer")); n != 0 {
			t.Errorf("%d containers were stopped by restarts", n)
		}
	})
}

func TestPodDeletedWhileNoProcessRanEndsWithItsHook(t *testing.T) {
	inWorld(t, func(w *world) {
		w.guardI1()
		w.api.create(testPod("a", withPreStop))
		w.eventually("running", 10*time.Second, w.running("a"))
		w.stop()
		w.api.delete("a", 30)
		time.Sleep(5 * time.Second)
		w.start()
		w.eventually("gone", 30*time.Second, w.gone("a"))
		if n := len(w.host.hookRuns()); n != 1 {
			t.Errorf("preStop ran %d times", n)
		}
	})
}

func TestOrphanOfAForceDeletionIsStoppedAfterARestart(t *testing.T) {
	inWorld(t, func(w *world) {
		w.api.create(testPod("a", withPreStop))
		w.eventually("running", 10*time.Second, w.running("a"))
		w.stop()
		w.api.delete("a", 0)
		w.start()
		w.eventually("stopped", 30*time.Second, func() bool { return len(w.cri.Running("a")) == 0 })
		w.eventually("collected", 5*time.Minute, func() bool { return len(w.cri.Sandboxes("a")) == 0 })
	})
}

func TestForceDeletionInterruptsALongHook(t *testing.T) {
	inWorld(t, func(w *world) {
		w.host.run = func(ctx context.Context, req host.HookRequest) (*host.HookResult, error) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(req.Timeout):
				return &host.HookResult{TimedOut: true}, nil
			}
		}
		w.cri.Behave(fakecri.Selector{Container: "main"}, fakecri.Behaviour{OnTERM: fakecri.TERM{Ignore: true}})
		w.api.create(testPod("a", withPreStop))
		w.eventually("running", 10*time.Second, w.running("a"))
		w.api.delete("a", 600)
		time.Sleep(5 * time.Second)
		w.api.delete("a", 0)
		w.eventually("stopped", 6*time.Second, func() bool { return len(w.cri.Running("a")) == 0 })
	})
}

func TestLinkLossDuringATerminationEndsAsIfItHadNotHappened(t *testing.T) {
	inWorld(t, func(w *world) {
		w.guardI1()
		w.cri.Behave(fakecri.Selector{Container: "main"}, fakecri.Behaviour{OnTERM: fakecri.TERM{Ignore: true}})
		w.api.create(testPod("a", withPreStop))
		w.eventually("running", 10*time.Second, w.running("a"))
		w.api.delete("a", 30)
		time.Sleep(3 * time.Second)
		w.cri.Cut()
		time.Sleep(10 * time.Second)
		if w.api.get("a") == nil {
			t.Fatal("the object went while nobody could know whether the container runs")
		}
		w.cri.Mend()
		w.eventually("gone", 25*time.Second, w.gone("a"))
		if n := len(w.host.hookRuns()); n != 1 {
			t.Errorf("preStop was asked for %d times", n)
		}
	})
}

func TestLongLinkLossLeavesPodsAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		w.api.create(testPod("a"))
		w.eventually("running", 10*time.Second, w.running("a"))
		w.cri.Cut()
		time.Sleep(10 * time.Minute)
		if p := w.api.get("a"); p.Status.Phase != v1.PodRunning {
			t.Errorf("phase %s while the link is down", p.Status.Phase)
		}
		w.cri.Mend()
		time.Sleep(2 * time.Minute)
		if n := len(w.cri.Calls("StopContainer")); n != 0 {
			t.Errorf("%d containers were stopped", n)
		}
	})
}

func TestDeletionDuringInitWaitsForTheInitContainer(t *testing.T) {
	inWorld(t, func(w *world) {
		w.guardI1()
		w.cri.Behave(fakecri.Selector{Container: "init"}, fakecri.Behaviour{OnTERM: fakecri.TERM{After: 4 * time.Second}})
		w.api.create(testPod("a", withInit))
		w.eventually("init runs", 10*time.Second, func() bool { return len(w.cri.Running("a")) == 1 })
		w.api.delete("a", 30)
		w.eventually("gone", 15*time.Second, w.gone("a"))
		if _, made := w.cri.Newest("a", "main"); made {
			t.Error("main was started by a deletion")
		}
	})
}

func TestSameNameRecreationLeavesTheNewPodAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		w.guardI1()
		w.cri.Behave(fakecri.Selector{UID: "a"}, fakecri.Behaviour{OnTERM: fakecri.TERM{After: 15 * time.Second}})
		w.api.create(testPod("a"))
		w.eventually("running", 10*time.Second, w.running("a"))
		w.api.delete("a", 20)
		time.Sleep(time.Second)
		w.api.onDelete = func(types.UID) {}
		w.api.delete("a", 0)
		w.api.create(testPod("b", func(p *v1.Pod) { p.Name = "pod-a" }))
		w.eventually("new one runs", 10*time.Second, w.running("b"))
		w.eventually("old one stopped", 30*time.Second, func() bool { return len(w.cri.Running("a")) == 0 })
		time.Sleep(time.Minute)
		if len(w.cri.Running("b")) != 1 {
			t.Error("the new pod was stopped with the old one")
		}
	})
}

func TestUnsupportedPodIsRefusedAndNothingOfItIsMade(t *testing.T) {
	inWorld(t, func(w *world) {
		w.api.create(testPod("a", func(p *v1.Pod) {
			p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "device"}}
		}))
		w.eventually("failed", 10*time.Second, func() bool { return w.api.get("a").Status.Phase == v1.PodFailed })
		if n := len(w.cri.Calls("RunPodSandbox")); n != 0 {
			t.Errorf("%d sandboxes were made", n)
		}
	})
}

func TestCompletedJobPodIsFinalAndSucceeds(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cri.Behave(fakecri.Selector{Container: "main"}, fakecri.Behaviour{Exits: true, ExitAfter: time.Second})
		w.api.create(testPod("a", func(p *v1.Pod) { p.Spec.RestartPolicy = v1.RestartPolicyNever }))
		w.eventually("succeeded", 15*time.Second, func() bool { return w.api.get("a").Status.Phase == v1.PodSucceeded })
		w.restart()
		time.Sleep(5 * time.Minute)
		if p := w.api.get("a"); p.Status.Phase != v1.PodSucceeded || len(w.cri.Calls("RunPodSandbox")) != 1 {
			t.Errorf("phase %s after %d sandboxes", p.Status.Phase, len(w.cri.Calls("RunPodSandbox")))
		}
	})
}

func TestCrashingContainerKeepsItsRestartCountAcrossARestart(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cri.Behave(fakecri.Selector{Container: "main"}, fakecri.Behaviour{Exits: true, ExitAfter: time.Second, ExitCode: 1})
		w.api.create(testPod("a"))
		count := func() int32 {
			if s := w.api.get("a").Status.ContainerStatuses; len(s) == 1 {
				return s[0].RestartCount
			}
			return -1
		}
		w.eventually("three restarts", 3*time.Minute, func() bool { return count() >= 3 })
		before := count()
		w.restart()
		time.Sleep(time.Minute)
		if now := count(); now < before {
			t.Errorf("restart count fell from %d to %d", before, now)
		}
	})
}
