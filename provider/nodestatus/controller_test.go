// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clientgotesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/provider/machine"
)

func TestMain(m *testing.M) {
	// client-go's own handler waits by the real clock, which ends in a far future inside a bubble of synctest.
	utilruntime.ErrorHandlers = nil
	m.Run()
}

var errRefused = fmt.Errorf("host tls://192.0.2.7:8470 is not reachable: connection refused: %w", errdefs.ErrUnavailable)

// scripted is a machine and an engine whose state the test sets.
type scripted struct {
	mu      sync.Mutex
	state   machine.State
	engine  error
	changes chan struct{}
}

func (s *scripted) State() machine.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

func (s *scripted) Changes() <-chan struct{} { return s.changes }

func (s *scripted) health() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine
}

func (s *scripted) set(state machine.State) {
	s.mu.Lock()
	s.state = state
	s.mu.Unlock()
	select {
	case s.changes <- struct{}{}:
	default:
	}
}

// cluster is a fake API with a controller on it.
type cluster struct {
	t       *testing.T
	client  *fake.Clientset
	machine *scripted
	events  *record.FakeRecorder
	start   func()
	stop    func()
}

// newCluster makes an API with the objects and a controller that is not running yet.
func newCluster(t *testing.T, state machine.State, objects ...runtime.Object) *cluster {
	c := &cluster{
		t: t, client: fake.NewClientset(objects...), events: record.NewFakeRecorder(100),
		machine: &scripted{state: state, changes: make(chan struct{}, 1)},
	}
	// The fake API gives no UIDs, and a lease is not made without the UID of its node.
	n := 0
	c.client.PrependReactor("create", "nodes", func(action clientgotesting.Action) (bool, runtime.Object, error) {
		n++
		if create, ok := action.(clientgotesting.CreateAction); ok {
			if node, ok := create.GetObject().(*v1.Node); ok {
				node.UID = types.UID(fmt.Sprintf("uid-%d", n))
			}
		}
		return false, nil, nil
	})
	controller := New(Options{
		Config: testConfig(), Machine: c.machine, Engine: c.machine.health, Client: c.client, Watches: c.client,
		Recorder: c.events, Clock: clock.RealClock{},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	c.start = func() { go func() { defer close(done); controller.Run(ctx) }(); synctest.Wait() }
	c.stop = func() { cancel(); <-done }
	return c
}

func run(t *testing.T, state machine.State, objects ...runtime.Object) *cluster {
	c := newCluster(t, state, objects...)
	c.start()
	t.Cleanup(c.stop)
	return c
}

// after lets time pass.
func (c *cluster) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (c *cluster) node() *v1.Node {
	c.t.Helper()
	obj, err := c.client.Tracker().Get(v1.SchemeGroupVersion.WithResource("nodes"), "", "edge-1")
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		c.t.Fatal(err)
	}
	node, ok := obj.(*v1.Node)
	if !ok {
		c.t.Fatalf("the API has a %T for a node", obj)
	}
	return node
}

// ready returns status, reason and message of the node's Ready condition.
func (c *cluster) ready() string {
	c.t.Helper()
	node := c.node()
	if node == nil {
		return "no node"
	}
	ready := condition(node.Status.Conditions, v1.NodeReady)
	if ready == nil {
		return "no condition"
	}
	return string(ready.Status) + " " + ready.Reason + ": " + ready.Message
}

func (c *cluster) expectReady(what, want string) {
	c.t.Helper()
	if got := c.ready(); got != want {
		c.t.Errorf("%s: Ready is\n %s, want\n %s", what, got, want)
	}
}

// recorded takes the reasons of the events so far.
func (c *cluster) recorded() []string {
	var reasons []string
	for {
		select {
		case e := <-c.events.Events:
			reasons = append(reasons, strings.Fields(e)[1])
		default:
			return reasons
		}
	}
}

// writes counts the writes to the node so far.
func (c *cluster) writes() int {
	n := 0
	for _, a := range c.client.Actions() {
		if a.GetResource().Resource == "nodes" && (a.GetVerb() == "patch" || a.GetVerb() == "update" || a.GetVerb() == "create") {
			n++
		}
	}
	return n
}

const (
	readyText = "True KubeletReady: kubelet is posting ready status"
	downText  = "False HostLinkDown: link to host tls://192.0.2.7:8470 is down since 2026-01-02T03:04:05Z: " +
		"host tls://192.0.2.7:8470 is not reachable: connection refused: unavailable"
)

func downState() machine.State {
	s := testState()
	s.Link = &machine.Outage{Since: epoch, Err: errRefused}
	return s
}

func TestControllerRegistersTheNodeOnceTheMachineIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := run(t, machine.State{Target: "tls://192.0.2.7:8470", LastError: errRefused})
		c.after(time.Minute)
		c.expectReady("before the host answered", "no node")

		c.machine.set(testState())
		c.after(2 * time.Second)
		c.expectReady("after it answered", readyText)
		if d := cmp.Diff(testConfig().Taints, c.node().Spec.Taints); d != "" {
			t.Errorf("taints (-want +got):\n%s", d)
		}
		want := []string{"Starting", "NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID", "NodeReady"}
		if d := cmp.Diff(want, c.recorded()); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
	})
}

func TestControllerStaysAwayFromANodeUntilItKnowsMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, state := testConfig(), testState()
		old := config.describe(&state)
		old.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady"}}
		c := run(t, machine.State{Target: "tls://192.0.2.7:8470", LastError: errRefused}, old)
		c.after(5 * time.Second)
		if c.writes() != 0 {
			t.Error("a host that was only just asked made the node change")
		}
	})
}

func TestControllerMarksAnOldNodeNotReadyWhenTheHostIsAwayAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, state := testConfig(), testState()
		old := config.describe(&state)
		old.UID = "old-uid"
		old.Labels["example.com/theirs"] = "x"
		old.Status.Conditions = []v1.NodeCondition{
			{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady"},
			{Type: "KernelDeadlock", Status: v1.ConditionFalse},
		}
		away := machine.State{
			Target: "tls://192.0.2.7:8470", LastError: errRefused, Link: &machine.Outage{Since: epoch, Err: errRefused},
		}
		c := run(t, away, old)
		c.after(2 * time.Second)
		c.expectReady("host away", downText)
		if got := c.node().Status.NodeInfo.KernelVersion; got != "6.18.0" {
			t.Errorf("kernel version %q was not kept", got)
		}
		// The pressure conditions were not there before.
		want := []string{"Starting", "NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID", "NodeNotReady", "HostLinkDown"}
		if d := cmp.Diff(want, c.recorded()); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}

		c.machine.set(testState())
		c.after(2 * time.Second)
		c.expectReady("host there", readyText)
		node := c.node()
		if node.Labels["example.com/theirs"] != "x" || condition(node.Status.Conditions, "KernelDeadlock") == nil {
			t.Errorf("what others wrote was removed: labels %v, conditions %v", node.Labels, node.Status.Conditions)
		}
	})
}

func TestControllerSaysLinkDownAndBackAtOnceAndGoesOnRenewingTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := run(t, testState())
		c.after(time.Minute)
		c.recorded()
		c.machine.set(downState())
		synctest.Wait()
		c.expectReady("link down", downText)
		if d := cmp.Diff([]string{"NodeNotReady", "HostLinkDown"}, c.recorded()); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}

		for range 9 {
			c.after(10 * time.Second)
			lease, err := c.client.CoordinationV1().Leases("kube-node-lease").Get(t.Context(), "edge-1", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if age := time.Since(lease.Spec.RenewTime.Time); age > 15*time.Second {
				t.Fatalf("lease is %v old while the link is down", age)
			}
		}
		c.expectReady("link still down", downText)

		c.machine.set(testState())
		synctest.Wait()
		c.expectReady("link up", readyText)
		if d := cmp.Diff([]string{"NodeReady", "HostLinkUp"}, c.recorded()); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
	})
}

func TestControllerTellsOncePerOutageWhatWasDownSinceWhenAndWhy(t *testing.T) {
	runtimeDown := testState()
	runtimeDown.RuntimeDown = &machine.Outage{Since: epoch, Err: errors.New("no answer")}
	for name, tc := range map[string]struct {
		down machine.State
		want []string
	}{
		"link": {downState(), []string{
			"Warning HostLinkDown " + strings.TrimPrefix(downText, "False HostLinkDown: "),
			"Normal HostLinkUp link to host tls://192.0.2.7:8470 is up again; it was down since 2026-01-02T03:04:05Z",
		}},
		"container runtime": {runtimeDown, []string{
			"Warning ContainerRuntimeDown container runtime is down: no answer",
			"Normal ContainerRuntimeUp container runtime answers again; it was down since 2026-01-02T03:04:05Z",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := run(t, testState())
				c.after(time.Minute)
				c.recorded()
				for _, state := range []machine.State{tc.down, tc.down, testState(), testState()} {
					c.machine.set(state)
					c.after(time.Minute)
				}
				var got []string
				for len(c.events.Events) > 0 {
					if e := <-c.events.Events; !strings.Contains(e, "status is now") {
						got = append(got, e)
					}
				}
				if d := cmp.Diff(tc.want, got); d != "" {
					t.Errorf("events (-want +got):\n%s", d)
				}
			})
		})
	}
}

func TestControllerWritesAnUnchangedStatusEveryFiveMinutesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := run(t, testState())
		c.after(time.Minute)
		before := c.writes()
		c.after(10 * time.Minute)
		if got := c.writes() - before; got != 2 {
			t.Errorf("%d writes in 10 minutes, want 2", got)
		}
	})
}

func TestControllerWritesChangingMessagesEveryTenSecondsAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := run(t, testState())
		c.after(time.Minute)
		before := c.writes()
		for i := range 60 {
			state := downState()
			state.Link.Err = fmt.Errorf("attempt %d", i)
			c.machine.set(state)
			c.after(time.Second)
		}
		if got := c.writes() - before; got < 5 || got > 7 {
			t.Errorf("%d writes in a minute of changing messages, want about 6", got)
		}
		if got := c.ready(); !strings.Contains(got, "HostLinkDown") || !strings.Contains(got, "attempt 5") {
			t.Errorf("Ready is %s, want one of the last messages", got)
		}
	})
}

func TestControllerWritesAgainWhatSomebodyElseChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := run(t, testState())
		c.after(time.Minute)
		c.recorded()
		// The node lifecycle controller does this when the lease was not renewed for a while.
		node := c.node().DeepCopy()
		ready := condition(node.Status.Conditions, v1.NodeReady)
		ready.Status, ready.Reason, ready.Message = v1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status."
		if _, err := c.client.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		c.after(10 * time.Second)
		c.expectReady("10 s later", readyText)
		if d := cmp.Diff([]string{"NodeReady"}, c.recorded()); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
	})
}

func TestControllerRegistersADeletedNodeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := run(t, testState())
		c.after(time.Minute)
		was := c.node().UID
		if err := c.client.CoreV1().Nodes().Delete(t.Context(), "edge-1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		c.after(10 * time.Second)
		c.expectReady("10 s later", readyText)
		node := c.node()
		if node.UID == was || len(node.Spec.Taints) != 1 {
			t.Errorf("node is not a new one with its taints: uid %s, taints %v", node.UID, node.Spec.Taints)
		}
	})
}

func TestControllerSurvivesAnAPIThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, testState())
		var mu sync.Mutex
		away := true
		c.client.PrependReactor("*", "*", func(clientgotesting.Action) (bool, runtime.Object, error) {
			mu.Lock()
			defer mu.Unlock()
			if away {
				return true, nil, errors.New("connection refused")
			}
			return false, nil, nil
		})
		c.start()
		t.Cleanup(c.stop)
		c.after(5 * time.Minute)
		mu.Lock()
		away = false
		mu.Unlock()
		c.after(time.Minute)
		c.expectReady("API back before registration", readyText)

		mu.Lock()
		away = true
		mu.Unlock()
		c.machine.set(downState())
		c.after(5 * time.Minute)
		mu.Lock()
		away = false
		mu.Unlock()
		c.after(time.Minute)
		c.expectReady("API back after the link went down", downText)
	})
}

func TestControllerReportsARebootAndAnEngineThatStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, state := testConfig(), testState()
		old := config.describe(&state)
		old.UID, old.Status.NodeInfo.BootID = "old-uid", "boot-0"
		c := newCluster(t, testState(), old)
		c.machine.engine = errors.New("PLEG is not healthy: pleg has yet to be successful")
		c.start()
		t.Cleanup(c.stop)
		c.after(2 * time.Second)
		c.expectReady("engine stands", "False KubeletNotReady: PLEG is not healthy: pleg has yet to be successful")
		if got := strings.Join(c.recorded(), " "); !strings.HasPrefix(got, "Starting Rebooted ") {
			t.Errorf("events %s do not begin with the reboot", got)
		}
		c.machine.mu.Lock()
		c.machine.engine = nil
		c.machine.mu.Unlock()
		c.after(time.Second)
		c.expectReady("a second after the engine began", readyText)
	})
}

func TestControllerKeepsImagesOutOfTheCopyInTheAnnotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := testState()
		state.Images = []*runtimeapi.Image{{Id: "i", Size: 7, RepoTags: []string{"docker.io/library/busybox:1.37"}}}
		c := run(t, state)
		c.after(30 * time.Second)
		want := []v1.ContainerImage{{Names: []string{"docker.io/library/busybox:1.37"}, SizeBytes: 7}}
		if d := cmp.Diff(want, c.node().Status.Images); d != "" {
			t.Errorf("images (-want +got):\n%s", d)
		}
		c.machine.set(downState())
		c.after(6 * time.Minute)
		node := c.node()
		if d := cmp.Diff(want, node.Status.Images); d != "" {
			t.Errorf("images after further writes of the status (-want +got):\n%s", d)
		}
		for key, value := range node.Annotations {
			if strings.Contains(value, "busybox") {
				t.Errorf("annotation %s has a copy of the images", key)
			}
		}
	})
}

func TestControllerReportsAResolvConfThatPodsCannotHaveWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		with := func(content string) machine.State {
			state := testState()
			facts := *state.Facts
			facts.ResolvConf = content
			state.Facts = &facts
			return state
		}
		long := "search " + strings.Repeat("a.example ", 33)
		c := run(t, with(long))
		c.after(time.Minute)
		if got := c.recorded(); !slices.Contains(got, "CheckLimitsForResolvConf") {
			t.Errorf("at the start: %q", got)
		}
		for content, want := range map[string][]string{long + "b.example": {"CheckLimitsForResolvConf"}, "search a.example": nil} {
			for range 3 {
				c.machine.set(with(content))
				c.after(10 * time.Second)
			}
			if d := cmp.Diff(want, c.recorded(), cmpopts.EquateEmpty()); d != "" {
				t.Errorf("events with %q (-want +got):\n%s", content, d)
			}
		}
	})
}

func TestControllerReportsClocksThatAreApartOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := run(t, testState())
		c.after(time.Minute)
		c.recorded()
		state := testState()
		state.ClockOffset = -time.Hour
		for range 5 {
			c.machine.set(state)
			c.after(10 * time.Second)
		}
		if d := cmp.Diff([]string{"HostClockSkew"}, c.recorded()); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
	})
}

func TestControllerStopsInTimeAndLeavesTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, testState())
		c.start()
		c.after(time.Minute)
		began := time.Now()
		c.stop()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("stop took %v", took)
		}
		c.expectReady("after the stop", readyText)
	})
}
