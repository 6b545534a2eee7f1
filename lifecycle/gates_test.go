// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/test/fakecri"
)

const testGate v1.PodConditionType = "example.com/in-rotation"

func withGate(p *v1.Pod) {
	p.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: testGate}}
}

// setGate writes the condition of the gate as a controller of a load balancer does.
func (w *world) setGate(uid types.UID, value v1.ConditionStatus) {
	w.api.edit(uid, func(p *v1.Pod) {
		if c := podCondition(p, testGate); c != nil {
			c.Status = value
			return
		}
		p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: testGate, Status: value})
	})
	w.api.mu.Lock()
	defer w.api.mu.Unlock()
	w.api.publish(PodReconciled, w.api.pods[uid])
}

// podCondition finds a condition of a pod, nil if it has none of that type.
func podCondition(p *v1.Pod, t v1.PodConditionType) *v1.PodCondition {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == t {
			return c
		}
	}
	return nil
}

func TestReadinessGateOfAnotherWriterDecidesAtOnceWhetherThePodIsReady(t *testing.T) {
	inWorld(t, func(w *world) {
		w.api.create(testPod("a", withGate))
		isReady := func(status v1.ConditionStatus, reason, message string) func() bool {
			return func() bool {
				c := podCondition(w.api.get("a"), v1.PodReady)
				return c != nil && c.Status == status && c.Reason == reason && c.Message == message
			}
		}
		w.eventually("waits for the gate", 10*time.Second, isReady(v1.ConditionFalse, "ReadinessGatesNotReady",
			`corresponding condition of pod readiness gate "example.com/in-rotation" does not exist.`))
		if c := podCondition(w.api.get("a"), v1.ContainersReady); c == nil || c.Status != v1.ConditionTrue {
			t.Errorf("ContainersReady is %+v while only the gate is missing", c)
		}
		time.Sleep(5 * time.Second) // nothing of the pod's start is under way any more
		for _, step := range []struct {
			gate            v1.ConditionStatus
			ready           v1.ConditionStatus
			reason, message string
		}{
			{gate: v1.ConditionTrue, ready: v1.ConditionTrue},
			{
				gate: v1.ConditionFalse, ready: v1.ConditionFalse, reason: "ReadinessGatesNotReady",
				message: `the status of pod readiness gate "example.com/in-rotation" is not "True", but False`,
			},
			{gate: v1.ConditionTrue, ready: v1.ConditionTrue},
			{
				gate: v1.ConditionUnknown, ready: v1.ConditionFalse, reason: "ReadinessGatesNotReady",
				message: `the status of pod readiness gate "example.com/in-rotation" is not "True", but Unknown`,
			},
		} {
			w.setGate("a", step.gate)
			w.eventually("gate "+string(step.gate), time.Second, isReady(step.ready, step.reason, step.message))
			time.Sleep(30 * time.Second)
			if c := podCondition(w.api.get("a"), testGate); c == nil || c.Status != step.gate {
				t.Errorf("the condition of the gate became %+v, want it left as %s", c, step.gate)
			}
		}
	})
}

func TestReadinessGateIsHeededAfterARestartOfTheProcess(t *testing.T) {
	inWorld(t, func(w *world) {
		w.api.create(testPod("a", withGate))
		w.eventually("runs", 10*time.Second, func() bool { return w.main("a").State.Running != nil })
		w.stop()
		w.setGate("a", v1.ConditionTrue)
		w.start()
		w.eventually("ready", 10*time.Second, w.running("a"))
		w.stop()
		w.setGate("a", v1.ConditionFalse)
		w.start()
		w.eventually("not ready", 10*time.Second, func() bool { return !ready(w.api.get("a")) })
	})
}

func TestSandboxIsShownReadyWhileAPullHangs(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cri.Inject(fakecri.Fault{Method: "PullImage", Hang: true})
		w.api.create(testPod("a"))
		w.eventually("ready to start containers", 10*time.Second, func() bool {
			c := podCondition(w.api.get("a"), v1.PodReadyToStartContainers)
			return c != nil && c.Status == v1.ConditionTrue
		})
		time.Sleep(5 * time.Minute)
		p := w.api.get("a")
		if c := podCondition(p, v1.PodReadyToStartContainers); c == nil || c.Status != v1.ConditionTrue {
			t.Errorf("it became %+v while the pull still hung", c)
		}
		if n := len(w.cri.Calls("CreateContainer")); n != 0 {
			t.Fatalf("%d containers were made, so nothing hung", n)
		}
		if p.Status.Phase != v1.PodPending || w.main("a").State.Waiting == nil || ready(p) {
			t.Errorf("phase %s, container %+v; want it waiting in a pending pod", p.Status.Phase, w.main("a").State)
		}
	})
}
