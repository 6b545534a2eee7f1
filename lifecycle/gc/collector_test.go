// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package gc

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
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/cri"
)

// machine is a runtime and its pod directories in memory. Objects are written "pod/name/attempt/state" for containers
// and "pod/attempt/state" for sandboxes; the id of a container is "pod-name-attempt", that of a sandbox "pod-attempt".
// A container of attempt n is in the pod's sandbox of the attempt given by the field sandbox, else in the first.
type machine struct {
	mu         sync.Mutex
	containers []*runtimeapi.Container
	sandboxes  []*runtimeapi.PodSandbox
	dirs       []types.UID
	calls      []string
	fail       map[string]error
	hang       map[string]chan struct{}
}

var (
	_ Runtime = (*machine)(nil)
	_ Logs    = (*machine)(nil)
	_ Dirs    = (*machine)(nil)
)

func newMachine(dirs string, objects ...string) *machine {
	m := &machine{fail: map[string]error{}, hang: map[string]chan struct{}{}}
	for uid := range strings.FieldsSeq(dirs) {
		m.dirs = append(m.dirs, types.UID(uid))
	}
	for _, o := range objects {
		o, sandbox, _ := strings.Cut(o, "@")
		f := strings.Split(o, "/")
		var attempt uint32
		if _, err := fmt.Sscan(f[len(f)-2], &attempt); err != nil {
			panic(err)
		}
		state := f[len(f)-1]
		if len(f) == 3 {
			ready := runtimeapi.PodSandboxState_SANDBOX_NOTREADY
			if state == "ready" {
				ready = runtimeapi.PodSandboxState_SANDBOX_READY
			}
			m.sandboxes = append(m.sandboxes, &runtimeapi.PodSandbox{
				Id: fmt.Sprintf("%s-%d", f[0], attempt), State: ready, CreatedAt: int64(attempt),
				Metadata: &runtimeapi.PodSandboxMetadata{Uid: f[0], Attempt: attempt},
			})
			continue
		}
		if sandbox == "" {
			sandbox = f[0] + "-0"
		}
		m.containers = append(m.containers, &runtimeapi.Container{
			Id: fmt.Sprintf("%s-%s-%d", f[0], f[1], attempt), PodSandboxId: sandbox, CreatedAt: int64(attempt),
			State:    runtimeapi.ContainerState(runtimeapi.ContainerState_value["CONTAINER_"+strings.ToUpper(state)]),
			Metadata: &runtimeapi.ContainerMetadata{Name: f[1], Attempt: attempt},
			Labels:   map[string]string{cri.LabelPodUID: f[0]},
		})
	}
	return m
}

// do records a call, hangs if it is told to, and returns the call's error.
func (m *machine) do(call string) error {
	m.mu.Lock()
	m.calls = append(m.calls, call)
	hang, err := m.hang[call], m.fail[call]
	m.mu.Unlock()
	if hang != nil {
		<-hang
	}
	return err
}

func (m *machine) ListContainers(_ context.Context, uid types.UID) ([]*runtimeapi.Container, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []*runtimeapi.Container
	for _, c := range m.containers {
		if uid == "" || c.Labels[cri.LabelPodUID] == string(uid) {
			out = append(out, c)
		}
	}
	return out, m.fail["list containers"]
}

func (m *machine) ListSandboxes(_ context.Context, uid types.UID) ([]*runtimeapi.PodSandbox, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []*runtimeapi.PodSandbox
	for _, s := range m.sandboxes {
		if uid == "" || s.Metadata.Uid == string(uid) {
			out = append(out, s)
		}
	}
	return out, m.fail["list sandboxes"]
}

func (m *machine) ContainerStatus(_ context.Context, id string) (*runtimeapi.ContainerStatus, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &runtimeapi.ContainerStatus{Id: id, LogPath: "/logs/" + id}, m.fail["status "+id]
}

func (m *machine) StopContainer(_ context.Context, id string, grace time.Duration) error {
	return m.do(fmt.Sprintf("stop %s %v", id, grace))
}

func (m *machine) RemoveContainer(_ context.Context, id string) error { return m.do("remove " + id) }
func (m *machine) StopSandbox(_ context.Context, id string) error     { return m.do("stop " + id) }
func (m *machine) RemoveSandbox(_ context.Context, id string) error   { return m.do("remove " + id) }
func (m *machine) RemoveLogs(_ context.Context, path string) error    { return m.do("logs " + path) }

func (m *machine) ListPods(context.Context) ([]types.UID, error) { return m.dirs, m.fail["list dirs"] }

func (m *machine) RemovePod(_ context.Context, uid types.UID, removeLogs bool) error {
	return m.do(fmt.Sprintf("dir %s logs=%v", uid, removeLogs))
}

// states answers for pods by the first letter of their UID: g is gone (removable), k is known, anything else unknown.
func states(uid types.UID) (removable, known bool) {
	return uid[0] == 'g', uid[0] == 'k' || uid[0] == 'g'
}

func (m *machine) collector(o Options) *Collector {
	o.Runtime, o.Logs, o.Dirs = m, m, m
	if o.Pods == nil {
		o.Pods = states
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return New(o)
}

func (m *machine) sortedCalls() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := slices.Clone(m.calls)
	slices.Sort(out)
	return out
}

func TestSweepRemovesOnlyWhatMayGo(t *testing.T) {
	for _, tc := range []struct {
		name    string
		dirs    string
		objects []string
		want    []string // in order, for one pod
	}{
		{
			name: "of a known pod the newest dead record of each container stays", dirs: "k",
			objects: []string{"k/0/ready", "k/web/0/exited", "k/web/1/exited", "k/web/2/exited", "k/init/0/exited"},
			want:    []string{"logs /logs/k-web-0", "remove k-web-0", "logs /logs/k-web-1", "remove k-web-1"},
		},
		{
			name: "the newest dead record stays beside a running one", dirs: "k",
			objects: []string{"k/0/ready", "k/web/0/exited", "k/web/1/exited", "k/web/2/running"},
			want:    []string{"logs /logs/k-web-0", "remove k-web-0"},
		},
		{
			name: "a running container is never touched, whatever its age", dirs: "k",
			objects: []string{"k/0/ready", "k/web/0/running", "k/web/1/exited"},
		},
		{
			name: "a created record is one that does not run", dirs: "k",
			objects: []string{"k/0/ready", "k/web/0/created", "k/web/1/created"},
			want:    []string{"logs /logs/k-web-0", "remove k-web-0"},
		},
		{
			name: "the newest dead record stays beside one that is being started", dirs: "k",
			objects: []string{"k/0/ready", "k/web/0/exited", "k/web/1/exited", "k/web/2/created"},
			want:    []string{"logs /logs/k-web-0", "remove k-web-0"},
		},
		{
			name: "a record in unknown state is stopped first", dirs: "k",
			objects: []string{"k/0/ready", "k/web/0/unknown", "k/web/1/exited"},
			want:    []string{"stop k-web-0 2s", "logs /logs/k-web-0", "remove k-web-0"},
		},
		{
			name: "of a known pod the newest sandbox stays, even stopped", dirs: "k",
			objects: []string{"k/0/notready", "k/1/notready", "k/2/notready"},
			want:    []string{"stop k-0", "remove k-0", "stop k-1", "remove k-1"},
		},
		{
			name: "a stopped sandbox whose container stays, stays", dirs: "k",
			objects: []string{"k/0/notready", "k/1/ready", "k/web/0/exited@k-0"},
		},
		{
			name: "a stopped sandbox goes with the last of its containers", dirs: "k",
			objects: []string{"k/0/notready", "k/1/ready", "k/web/0/exited@k-0", "k/web/1/exited@k-1"},
			want:    []string{"logs /logs/k-web-0", "remove k-web-0", "stop k-0", "remove k-0"},
		},
		{
			name: "an older sandbox that is ready is not garbage", dirs: "k",
			objects: []string{"k/0/ready", "k/1/ready"},
		},
		{
			name: "of a pod that is gone everything goes", dirs: "g",
			objects: []string{"g/0/notready", "g/1/notready", "g/web/0/exited", "g/web/1/exited@g-1", "g/side/1/created@g-1"},
			want: []string{
				"remove g-web-0", "remove g-side-1", "remove g-web-1",
				"stop g-0", "remove g-0", "stop g-1", "remove g-1", "dir g logs=true",
			},
		},
		{
			name: "what still runs of a pod that is gone is left with its directory", dirs: "g",
			objects: []string{"g/0/ready", "g/web/0/running", "g/init/0/exited"},
			want:    []string{"remove g-init-0"},
		},
		{
			name: "a ready sandbox keeps the directory of a pod that is gone", dirs: "g",
			objects: []string{"g/0/ready"},
		},
		{
			name: "the directory of a pod that is gone", dirs: "g",
			want: []string{"dir g logs=true"},
		},
		{
			name: "of a pod that is not known to be gone nothing goes", dirs: "u",
			objects: []string{"u/0/notready", "u/1/notready", "u/web/0/exited", "u/web/1/unknown"},
		},
		{
			name: "a container without its sandbox", dirs: "g",
			objects: []string{"g/web/0/exited"},
			want:    []string{"remove g-web-0", "dir g logs=true"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := newMachine(tc.dirs, tc.objects...)
			if err := m.collector(Options{}).pass(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, m.calls); diff != "" {
				t.Errorf("calls of a pass (-want +got):\n%s", diff)
			}
			// Collect removes the same of the one pod.
			m.calls = nil
			if err := m.collector(Options{}).Collect(t.Context(), types.UID(tc.dirs)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, m.calls); diff != "" {
				t.Errorf("calls of Collect (-want +got):\n%s", diff)
			}
		})
	}
}

// The runtime has no creation time for a container that it could not load, and the host's clock may step.
func TestTheNewestRecordIsTheOneWithTheHighestRestartNumber(t *testing.T) {
	m := newMachine("", "k/0/ready", "k/web/0/exited", "k/web/1/exited", "k/web/2/unknown")
	m.containers[0].CreatedAt = 1000
	m.containers[2].CreatedAt = 0
	if err := m.collector(Options{}).pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"logs /logs/k-web-0", "remove k-web-0", "logs /logs/k-web-1", "remove k-web-1"}
	if diff := cmp.Diff(want, m.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestCollectLeavesOtherPodsAlone(t *testing.T) {
	m := newMachine("g1 g2", "g1/0/notready", "g2/0/notready", "g2/web/0/exited")
	if err := m.collector(Options{}).Collect(t.Context(), "g1"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"stop g1-0", "remove g1-0", "dir g1 logs=true"}, m.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if err := m.collector(Options{}).Collect(t.Context(), ""); !errdefs.IsInvalidArgument(err) {
		t.Errorf("Collect of no pod: %v, want InvalidArgument", err)
	}
}

// I7: absence proves nothing until a complete list shows it.
func TestFailedListRemovesNothing(t *testing.T) {
	for _, list := range []string{"list containers", "list sandboxes", "list dirs"} {
		m := newMachine("g", "g/0/notready", "g/web/0/exited", "k/0/ready", "k/web/0/exited", "k/web/1/exited")
		m.fail[list] = errdefs.ErrUnavailable
		if err := m.collector(Options{}).pass(t.Context()); !errdefs.IsUnavailable(err) {
			t.Errorf("%s: got %v, want the error", list, err)
		}
		if len(m.calls) > 0 {
			t.Errorf("%s failed, and yet: %q", list, m.calls)
		}
	}
}

func TestFailedRemovalKeepsWhatDependsOnIt(t *testing.T) {
	broken := errors.New("device is busy")
	for _, tc := range []struct {
		fails string
		want  []string
	}{
		{"status k-web-0", []string{"stop k-0", "remove k-0"}},
		{"logs /logs/k-web-0", []string{"logs /logs/k-web-0", "stop k-0", "remove k-0"}},
		{"remove g-web-0", []string{"remove g-web-0"}},
		{"stop g-web-1 2s", []string{"stop g-web-1 2s"}},
		{"stop g-0", []string{"remove g-web-0", "stop g-0"}},
		{"remove g-0", []string{"remove g-web-0", "stop g-0", "remove g-0"}},
		{"dir g logs=true", []string{"remove g-web-0", "stop g-0", "remove g-0", "dir g logs=true"}},
	} {
		var m *machine
		switch {
		case strings.Contains(tc.fails, "k-"):
			m = newMachine("k", "k/0/notready", "k/1/ready", "k/web/0/exited@k-1", "k/web/1/exited@k-1")
		case strings.Contains(tc.fails, "g-web-1"):
			m = newMachine("g", "g/0/notready", "g/web/1/unknown")
		default:
			m = newMachine("g", "g/0/notready", "g/web/0/exited")
		}
		m.fail[tc.fails] = broken
		if err := m.collector(Options{}).pass(t.Context()); !errors.Is(err, broken) {
			t.Errorf("%s: got %v, want the error", tc.fails, err)
		}
		if diff := cmp.Diff(tc.want, m.calls); diff != "" {
			t.Errorf("%s fails (-want +got):\n%s", tc.fails, diff)
		}
	}
}

func TestLogsOfARecordThatIsGoneAreNotLookedFor(t *testing.T) {
	m := newMachine("", "k/0/ready", "k/web/0/exited", "k/web/1/exited")
	m.fail["status k-web-0"] = errdefs.ErrNotFound
	if err := m.collector(Options{}).pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"remove k-web-0"}, m.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// A pod may come to exist for us between the listing and its turn to be swept.
func TestSweepAsksAgainBeforeItRemoves(t *testing.T) {
	m := newMachine("x", "x/0/notready", "x/web/0/exited")
	asked := 0
	c := m.collector(Options{Pods: func(types.UID) (removable, known bool) {
		asked++
		return asked == 1, true
	}})
	if err := c.pass(t.Context()); err != nil || len(m.calls) > 0 {
		t.Errorf("error %v, calls %q, want none", err, m.calls)
	}
}

// I6: one hanging pod does not delay another.
func TestHangingRemovalDelaysNoOtherPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine("", "g1/web/0/exited", "g2/web/0/exited", "g3/web/0/exited")
		hang := make(chan struct{})
		m.hang["remove g2-web-0"] = hang
		done := make(chan error)
		c := m.collector(Options{})
		go func() { done <- c.pass(t.Context()) }()
		synctest.Wait()
		want := []string{"dir g1 logs=true", "dir g3 logs=true", "remove g1-web-0", "remove g2-web-0", "remove g3-web-0"}
		if diff := cmp.Diff(want, m.sortedCalls()); diff != "" {
			t.Errorf("calls while one hangs (-want +got):\n%s", diff)
		}
		// Nor is the hanging one begun a second time beside it.
		before := len(m.sortedCalls())
		if err := c.Collect(t.Context(), "g2"); err != nil {
			t.Error(err)
		}
		if after := len(m.sortedCalls()); after != before {
			t.Errorf("%d calls for a pod that is being swept", after-before)
		}
		close(hang)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestRunMakesAPassEachMinuteAndTellsOfFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine("", "g/web/0/exited")
		recorder := record.NewFakeRecorder(10)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			m.collector(Options{Recorder: recorder, Node: &v1.ObjectReference{Kind: "Node", Name: "n"}}).Run(ctx)
			close(ended)
		}()
		passes := func() int {
			synctest.Wait()
			n := 0
			for _, c := range m.sortedCalls() {
				if c == "remove g-web-0" {
					n++
				}
			}
			return n
		}
		time.Sleep(Period - time.Second)
		if n := passes(); n != 0 {
			t.Errorf("%d passes before the first minute is over", n)
		}
		time.Sleep(time.Second)
		if n := passes(); n != 1 {
			t.Errorf("%d passes after a minute, want 1", n)
		}
		m.mu.Lock()
		m.fail["remove g-web-0"] = errdefs.ErrUnavailable
		m.mu.Unlock()
		time.Sleep(Period)
		synctest.Wait()
		if len(recorder.Events) != 0 {
			t.Errorf("a lost connection was told as a failure: %s", <-recorder.Events)
		}
		m.mu.Lock()
		m.fail["remove g-web-0"] = errors.New("device is busy")
		m.mu.Unlock()
		time.Sleep(Period)
		synctest.Wait()
		if got := <-recorder.Events; got != `Warning ContainerGCFailed removing container "g-web-0": device is busy` {
			t.Errorf("event %q", got)
		}
		cancel()
		<-ended
	})
}

func TestNoDeadContainerOfASpentPodStays(t *testing.T) {
	m := newMachine("", "k/0/notready", "k/web/0/exited", "k/web/1/exited", "k/log/0/running")
	if err := m.collector(Options{Spent: func(uid types.UID) bool { return uid == "k" }}).Collect(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	want := []string{"logs /logs/k-web-0", "remove k-web-0", "logs /logs/k-web-1", "remove k-web-1"}
	if diff := cmp.Diff(want, m.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}
