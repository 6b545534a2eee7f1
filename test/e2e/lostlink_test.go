// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tombolo-dev/tombolo/test/testbed"
)

const (
	// silence is within what a cut that nothing tells of is noticed, as promised.
	silence = 15 * time.Second
	// toTell is for writing to the API and for finding it there, on a machine that is busy with tests.
	toTell = 2 * time.Second
	// atOnce is how much longer kubectl may take to fail than it took to succeed: much less than any deadline of the link.
	atOnce = 2 * time.Second
)

// TestLostLinkIsNoticedAndTold: on every kind of link a cut that nothing tells of is noticed within 15 s. Condition, event and metrics say
// so, since when and why, and who wants something of the host gets the same words at once.
func TestLostLinkIsNoticedAndTold(t *testing.T) {
	t.Parallel()
	e := require(t)
	for name, kind := range map[string]func(*site){
		"tls":     func(*site) {},
		"ssh":     func(s *site) { s.sshUser = testbed.SSHUser },
		"reverse": func(s *site) { s.reverse = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := e.newSite("islet-" + name)
			kind(s)
			s.startFor(t)
			lostLink(on(t, s))
		})
	}
}

func lostLink(k *tester) {
	held := k.hold(k.create(k.pod("islander", `trap "exit 0" TERM; echo running; sleep 1d & while :; do wait; done`, everlasting)))
	asked := [][]string{
		{"exec", "islander", "--", "true"}, {"attach", "islander"}, {"port-forward", "islander", ":80"}, {"logs", "islander"},
		{"logs", "-f", "--pod-running-timeout=1s", "islander"}, // for as long kubectl asks again
	}
	began := time.Now()
	k.kubectl(asked[0]...)
	success := time.Since(began)
	k.requireLink(1, 0)

	must(k.T, k.host.Disconnect(k.Context()))
	cut := time.Now()
	var told v1.NodeCondition
	eventually(k.T, 2*silence, "the node is NotReady", func() (err error) {
		if told, err = k.readyCondition(k.Context()); err == nil && told.Status == v1.ConditionTrue {
			return errNotYet
		}
		return err
	})
	noticed := time.Since(cut)
	k.Logf("NotReady after %.1f s of silence: %s", noticed.Seconds(), told.Message)
	if noticed > silence+toTell {
		k.Errorf("the node says so after %s", noticed)
	}
	if told.Reason != "HostLinkDown" {
		k.Errorf("the reason is %s", told.Reason)
	}
	words := k.requireSince(told.Message, cut)
	for _, args := range asked {
		began := time.Now()
		_, err := k.tryKubectl(nil, args...)
		took := time.Since(began)
		k.Logf("kubectl %s failed after %.2f s: %v", strings.Join(args, " "), took.Seconds(), err)
		if err == nil || !strings.Contains(err.Error(), words) {
			k.Errorf("kubectl %s: %v, want %q", args[0], err, words)
		}
		if took > success+atOnce {
			k.Errorf("kubectl %s failed after %s, and succeeded after %s", args[0], took, success)
		}
	}
	k.requireLink(0, 1)
	k.awaitNodeEvents("HostLinkDown", words)

	must(k.T, k.host.Reconnect(k.Context()))
	restored := time.Now()
	must(k.T, k.awaitReady(k.Context()))
	k.Logf("Ready again after %.1f s", time.Since(restored).Seconds())
	k.awaitNodeEvents("HostLinkUp", "it was down since")
	k.requireLink(1, 1)
	k.kubectl(asked[0]...)
	k.requireUnchanged(held)
}

// requireSince fails unless the message says since when there is no link, which is when a request was not answered for the first time,
// and returns its words up to there.
func (k *tester) requireSince(message string, cut time.Time) string {
	k.Helper()
	found := regexp.MustCompile(`^(link to host \S+ is down since (\S+)): .`).FindStringSubmatch(message)
	if found == nil {
		k.Fatalf("the message says neither since when nor why: %s", message)
	}
	since, err := time.Parse(time.RFC3339, found[2])
	must(k.T, err)
	if early, late := cut.Add(-2*time.Second), cut.Add(8*time.Second); since.Before(early) || since.After(late) {
		k.Errorf("down since %s, and the cut was at %s", since, cut.UTC())
	}
	return found[1]
}

// requireLink compares the node's metrics of its link.
func (k *tester) requireLink(up, losses int) {
	k.Helper()
	lines := strings.Split(k.nodeMetrics(), "\n")
	for _, want := range []string{fmt.Sprintf("tombolo_node_link_up %d", up), fmt.Sprintf("tombolo_node_link_losses_total %d", losses)} {
		if !slices.Contains(lines, want) {
			k.Errorf("no metric %s", want)
		}
	}
}

// awaitNodeEvents waits for the one event of the node with a reason, whose message has the text.
func (k *tester) awaitNodeEvents(reason, text string) {
	k.Helper()
	eventually(k.T, usual, fmt.Sprintf("event %s %q of the node", reason, text), func() error {
		list, err := k.client().CoreV1().Events(metav1.NamespaceDefault).List(k.Context(), metav1.ListOptions{
			FieldSelector: "involvedObject.kind=Node,involvedObject.name=" + k.name + ",reason=" + reason,
		})
		if err != nil {
			return err
		}
		if len(list.Items) != 1 || list.Items[0].Count != 1 || !strings.Contains(list.Items[0].Message, text) {
			return fmt.Errorf("%d events: %+v", len(list.Items), list.Items)
		}
		return nil
	})
}
