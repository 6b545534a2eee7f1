// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestHostDoesAsOneNodeSays: a second node that is led to a host is refused and says by whom, and the first one notices nothing. Another
// process of the first one need not wait.
func TestHostDoesAsOneNodeSays(t *testing.T) {
	t.Parallel()
	e := require(t)
	s := e.ownSite(t, "berth")
	k := on(t, s)
	held := k.hold(k.create(k.pod("moored", `trap "exit 0" TERM; echo running; sleep 1d & while :; do wait; done`)))

	second := e.newSite("barge")
	second.host = s.host
	must(t, second.prepareNode(t.Context()))
	must(t, second.startNode())
	t.Cleanup(func() {
		must(t, second.nodeProc.Kill())
		_ = e.cluster.Client().CoreV1().Nodes().Delete(context.Background(), second.name, metav1.DeleteOptions{})
	})
	eventually(t, usual, "the second node is NotReady and says why", func() error {
		condition, err := second.readyCondition(t.Context())
		if err == nil && (condition.Status == v1.ConditionTrue || !strings.Contains(condition.Message, "led by node "+s.name+" of cluster ")) {
			err = fmt.Errorf("its condition is %+v", condition)
		}
		return err
	})
	awaitLog(t, s.hostProc, "another node wants to lead this host, and is refused")
	k.requireUnchanged(held)

	s.killNode(t)
	s.restartNode(t)
	awaitLog(t, s.nodeProc, "link is up")
	must(t, s.awaitReady(t.Context()))
	if got := k.kubectl("exec", "moored", "--", "hostname"); got != "moored\n" {
		t.Errorf("exec: %q", got)
	}
	k.requireUnchanged(held)
	if condition, err := second.readyCondition(t.Context()); err != nil || condition.Status == v1.ConditionTrue {
		t.Errorf("the second node took the host over: %+v, %v", condition, err)
	}
}
