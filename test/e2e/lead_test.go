// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	awaitLog(t, second.nodeProc, "led by node "+s.name+" of cluster ")
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
	// A node that has never heard of its host has nothing to register with.
	if _, err := second.readyCondition(t.Context()); !apierrors.IsNotFound(err) {
		t.Errorf("the second node took the host over: %v", err)
	}
}
