// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// rule gives the main container a restart policy of its own, Never, but for one exit code.
func rule(action v1.ContainerRestartRuleAction, code int32) func(*v1.Pod) {
	return func(p *v1.Pod) {
		c := &p.Spec.Containers[0]
		c.RestartPolicy = new(v1.ContainerRestartPolicyNever)
		c.RestartPolicyRules = []v1.ContainerRestartRule{{
			Action:    action,
			ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{code}},
		}}
	}
}

func TestRestartRuleIsForItsExitCodeOnly(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.create(k.pod("ruled", `echo x >> /marks/starts; test $(wc -l < /marks/starts) -ge 2 && exit 7; exit 42`,
		restart(v1.RestartPolicyNever), rule(v1.ContainerRestartRuleActionRestart, 42)))
	pod = k.awaitPhase(pod, v1.PodFailed)
	c := pod.Status.ContainerStatuses[0]
	if c.RestartCount != 1 || c.State.Terminated == nil || c.State.Terminated.ExitCode != 7 || k.lines("starts") != 2 {
		t.Errorf("%d starts, container %+v", k.lines("starts"), c)
	}
}

// TestRestartRuleForAllContainersBeginsThePodAnew, with its init containers and in the same sandbox.
func TestRestartRuleForAllContainersBeginsThePodAnew(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.create(k.pod("anew", `echo x >> /marks/main; until [ -e /marks/other ]; do sleep 0.1; done; test $(wc -l < /marks/main) -ge 2 && exec sleep 1d; exit 88`,
		rule(v1.ContainerRestartRuleActionRestartAllContainers, 88), initContainer("init", `echo x >> /marks/init`), func(p *v1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, shell("other", `echo x >> /marks/other; exec sleep 1d`))
		}))
	pod = k.await(pod, 2*usual, "runs again", func(p *v1.Pod) error {
		if err := ready(p); err != nil {
			return err
		}
		return runsAgain(1)(p)
	})
	for _, name := range []string{"init", "main", "other"} {
		k.awaitLines(name, 2)
		if n := k.lines(name); n != 2 {
			t.Errorf("%s started %d times", name, n)
		}
	}
	for _, c := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		if c.RestartCount != 1 {
			t.Errorf("container %s: %d restarts", c.Name, c.RestartCount)
		}
	}
	if n := len(k.sandboxes(pod)); n != 1 {
		t.Errorf("%d sandboxes", n)
	}
}
