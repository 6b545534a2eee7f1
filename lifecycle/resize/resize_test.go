// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package resize

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/cri"
)

// runtime notes what it is told and answers with what the test sets.
type runtime struct {
	told  []string
	usage map[string]uint64
	err   error
}

func (r *runtime) UpdateContainerResources(_ context.Context, id string, l *runtimeapi.LinuxContainerResources) error {
	if r.err != nil {
		return r.err
	}
	r.told = append(r.told, fmt.Sprintf("%s shares=%d quota=%d memory=%d", id, l.CpuShares, l.CpuQuota, l.MemoryLimitInBytes))
	return nil
}

func (r *runtime) ContainerStats(_ context.Context, id string) (*runtimeapi.ContainerStats, error) {
	usage, ok := r.usage[id]
	if !ok {
		return nil, errdefs.ErrNotFound
	}
	return &runtimeapi.ContainerStats{Memory: &runtimeapi.MemoryUsage{UsageBytes: &runtimeapi.UInt64Value{Value: usage}}}, nil
}

type bed struct {
	*Manager
	runtime *runtime
	clock   *testclock.FakePassiveClock
	events  *record.FakeRecorder
}

func newBed() *bed {
	b := &bed{
		runtime: &runtime{usage: map[string]uint64{}}, events: record.NewFakeRecorder(100),
		clock: testclock.NewFakePassiveClock(time.Unix(1_700_000_000, 0)),
	}
	b.Manager = New(Options{Clock: b.clock, Recorder: b.events, Runtime: b.runtime})
	return b
}

// told returns the reasons of the events since the last call.
func (b *bed) reasons() []string {
	var out []string
	for {
		select {
		case e := <-b.events.Events:
			out = append(out, strings.Fields(e)[1])
		default:
			return out
		}
	}
}

func (b *bed) condition(uid types.UID, t v1.PodConditionType) string {
	for _, c := range b.Conditions(uid) {
		if c.Type == t {
			return strings.TrimSpace(fmt.Sprintf("%s %s gen=%d", c.Reason, c.Message, c.ObservedGeneration))
		}
	}
	return "none"
}

// res is "cpuRequest cpuLimit memoryRequest memoryLimit", "-" for none.
func res(s string) v1.ResourceRequirements {
	f := strings.Fields(s)
	out := v1.ResourceRequirements{Requests: v1.ResourceList{}, Limits: v1.ResourceList{}}
	set := func(l v1.ResourceList, n v1.ResourceName, q string) {
		if q != "-" {
			l[n] = resource.MustParse(q)
		}
	}
	set(out.Requests, v1.ResourceCPU, f[0])
	set(out.Limits, v1.ResourceCPU, f[1])
	set(out.Requests, v1.ResourceMemory, f[2])
	set(out.Limits, v1.ResourceMemory, f[3])
	return out
}

func podOf(generation int64, resources ...string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Name: "p", Namespace: "n", Generation: generation}}
	for i, r := range resources {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: fmt.Sprintf("c%d", i), Resources: res(r)})
	}
	return pod
}

// runs is an observation in which every container of the pod runs.
func runs(pod *v1.Pod) *cri.PodStatus {
	st := &cri.PodStatus{UID: pod.UID}
	for i := range pod.Spec.Containers {
		name := pod.Spec.Containers[i].Name
		st.Containers = append(st.Containers, cri.ContainerStatus{ID: "id-" + name, Name: name, State: cri.ContainerRunning})
	}
	return st
}

type view = func(*v1.Pod) *v1.Pod

func always(*v1.Pod, view) (reason, message string) { return "", "" }
func never(*v1.Pod, view) (reason, message string)  { return v1.PodReasonDeferred, "no room" }

func TestResizeThatFitsIsAllocatedActuatedAndTold(t *testing.T) {
	b := newBed()
	old := podOf(1, "100m 200m 10Mi 20Mi")
	b.Add(old)
	b.Observe(old, runs(old))
	allocated := b.Desire(podOf(2, "200m 400m 10Mi 40Mi"), always)
	if got := amountsOf(allocated.Spec.Containers[0].Resources); got.cpuLimit != 400 {
		t.Errorf("allocated %+v", got)
	}
	b.Observe(allocated, runs(allocated))
	if got := b.condition("u", v1.PodResizeInProgress); got != "gen=2" {
		t.Errorf("in progress: %s", got)
	}
	acted, err := b.Apply(t.Context(), allocated, runs(allocated))
	if err != nil || !acted {
		t.Fatalf("acted %v, error %v", acted, err)
	}
	want := []string{"id-c0 shares=102 quota=20000 memory=41943040", "id-c0 shares=204 quota=40000 memory=41943040"}
	if diff := cmp.Diff(want, b.runtime.told); diff != "" {
		t.Errorf("told the runtime (-want +got):\n%s", diff)
	}
	b.Observe(allocated, runs(allocated))
	if got := b.condition("u", v1.PodResizeInProgress); got != "none" {
		t.Errorf("in progress after the end: %s", got)
	}
	if diff := cmp.Diff([]string{"ResizeStarted", "ResizeCompleted"}, b.reasons()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if acted, err := b.Apply(t.Context(), allocated, runs(allocated)); acted || err != nil {
		t.Errorf("a finished change was made again: %v, %v", acted, err)
	}
}

func TestResizeThatDoesNotFitWaitsAndIsToldOnce(t *testing.T) {
	b := newBed()
	old := podOf(1, "100m - - -")
	b.Add(old)
	for range 3 {
		got := b.Desire(podOf(2, "9 - - -"), never)
		if amountsOf(got.Spec.Containers[0].Resources).cpuRequest != 100 {
			t.Fatal("was allocated what does not fit")
		}
		b.Retry(never)
	}
	if got := b.condition("u", v1.PodResizePending); got != "Deferred no room gen=2" {
		t.Errorf("pending: %s", got)
	}
	if diff := cmp.Diff([]string{"ResizeDeferred"}, b.reasons()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if got := b.Retry(always); !slices.Equal(got, []types.UID{"u"}) || b.Waiting() {
		t.Errorf("retry changed %v, still waiting: %v", got, b.Waiting())
	}
	if got := b.condition("u", v1.PodResizePending); got != "none" {
		t.Errorf("pending after it was allocated: %s", got)
	}
}

func TestWithdrawnResizeWaitsNoLonger(t *testing.T) {
	b := newBed()
	b.Add(podOf(1, "100m - - -"))
	b.Desire(podOf(2, "9 - - -"), never)
	b.Desire(podOf(3, "100m - - -"), never)
	if b.Waiting() || len(b.Conditions("u")) != 0 {
		t.Errorf("still waiting: %+v", b.Conditions("u"))
	}
}

func TestShrinkingComesBeforeGrowingAndMemoryBeforeCPU(t *testing.T) {
	b := newBed()
	old := podOf(1, "100m - - 10Mi", "100m - - 40Mi")
	b.Add(old)
	b.Observe(old, runs(old))
	b.runtime.usage["id-c1"] = 1
	pod := b.Desire(podOf(2, "50m - - 20Mi", "200m - - 30Mi"), always)
	if _, err := b.Apply(t.Context(), pod, runs(pod)); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"id-c1 shares=102 quota=-1 memory=31457280", "id-c0 shares=102 quota=-1 memory=20971520",
		"id-c0 shares=51 quota=-1 memory=20971520", "id-c1 shares=204 quota=-1 memory=31457280",
	}
	if diff := cmp.Diff(want, b.runtime.told); diff != "" {
		t.Errorf("told the runtime (-want +got):\n%s", diff)
	}
}

func TestMemoryInUseIsNotTakenAway(t *testing.T) {
	b := newBed()
	old := podOf(1, "- - - 40Mi")
	b.Add(old)
	b.Observe(old, runs(old))
	b.runtime.usage["id-c0"] = 30 << 20
	pod := b.Desire(podOf(2, "- - - 20Mi"), always)
	for range 2 {
		if _, err := b.Apply(t.Context(), pod, runs(pod)); err == nil {
			t.Fatal("memory in use was taken away")
		}
	}
	want := `Error cannot decrease memory limits: attempting to set container "c0" memory limit (20971520) below current usage (31457280) gen=2`
	if got := b.condition("u", v1.PodResizeInProgress); got != want {
		t.Errorf("condition %q, want %q", got, want)
	}
	if diff := cmp.Diff([]string{"ResizeStarted", "ResizeError"}, b.reasons()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	b.runtime.usage["id-c0"] = 1
	if _, err := b.Apply(t.Context(), pod, runs(pod)); err != nil || len(b.runtime.told) != 1 {
		t.Errorf("after the memory was freed: %v, told %v", err, b.runtime.told)
	}
}

func TestLostLinkIsNoResizeError(t *testing.T) {
	b := newBed()
	old := podOf(1, "100m - - -")
	b.Add(old)
	b.Observe(old, runs(old))
	pod := b.Desire(podOf(2, "200m - - -"), always)
	b.runtime.err = errdefs.ErrUnavailable
	if _, err := b.Apply(t.Context(), pod, runs(pod)); !errdefs.IsUnavailable(err) {
		t.Fatalf("error %v", err)
	}
	if got := b.condition("u", v1.PodResizeInProgress); got != "gen=2" {
		t.Errorf("condition %q", got)
	}
	b.runtime.err = nil
	if acted, err := b.Apply(t.Context(), pod, runs(pod)); !acted || err != nil {
		t.Errorf("after the link came back: %v, %v", acted, err)
	}
}

func TestRestartIsAskedForByPolicyOfTheChangedResourceOnly(t *testing.T) {
	for name, tc := range map[string]struct {
		policy []v1.ContainerResizePolicy
		to     string
		want   bool
	}{
		"no policy":           {nil, "200m - 10Mi -", false},
		"policy of the other": {[]v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}}, "200m - 10Mi -", false},
		"restart not needed":  {[]v1.ContainerResizePolicy{{ResourceName: v1.ResourceCPU, RestartPolicy: v1.NotRequired}}, "200m - 10Mi -", false},
		"restart needed":      {[]v1.ContainerResizePolicy{{ResourceName: v1.ResourceCPU, RestartPolicy: v1.RestartContainer}}, "200m - 10Mi -", true},
		"request of memory":   {[]v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}}, "100m - 20Mi -", true},
		"nothing changed":     {[]v1.ContainerResizePolicy{{ResourceName: v1.ResourceCPU, RestartPolicy: v1.RestartContainer}}, "100m - 10Mi -", false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed()
			old := podOf(1, "100m - 10Mi -")
			b.Add(old)
			b.Observe(old, runs(old))
			next := podOf(2, tc.to)
			next.Spec.Containers[0].ResizePolicy = tc.policy
			pod := b.Desire(next, always)
			if got := b.Restarts(pod, &pod.Spec.Containers[0], &runs(pod).Containers[0]); got != tc.want {
				t.Errorf("restart %v", got)
			}
			fresh := cri.ContainerStatus{ID: "new", Name: "c0", State: cri.ContainerRunning}
			b.Created(pod, &pod.Spec.Containers[0], "new")
			if b.Restarts(pod, &pod.Spec.Containers[0], &fresh) {
				t.Error("the new container is restarted too")
			}
		})
	}
}

func TestContainerMadeBeforeTheChangeIsUpdated(t *testing.T) {
	b := newBed()
	old := podOf(1, "100m - - -")
	b.Add(old)
	b.Created(old, &old.Spec.Containers[0], "id-c0")
	pod := b.Desire(podOf(2, "200m - - -"), always) // before the container was first observed
	if acted, err := b.Apply(t.Context(), pod, runs(pod)); !acted || err != nil {
		t.Errorf("acted %v, error %v", acted, err)
	}
}

// statusOf is what the API has of a container that runs with the resources.
func statusOf(allocated, actuated string) v1.ContainerStatus {
	return v1.ContainerStatus{
		Name: "c0", ContainerID: "containerd://id-c0", AllocatedResources: res(allocated).Requests, Resources: ptr.To(res(actuated)),
	}
}

func TestRestartedProcessKeepsWhatWasAllocated(t *testing.T) {
	pod := podOf(2, "9 9 - -")
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: v1.PodReasonDeferred, ObservedGeneration: 2}}
	pod.Status.ContainerStatuses = []v1.ContainerStatus{statusOf("100m - - -", "100m 200m - -")}
	b := newBed()
	got := b.Add(pod)
	if want := (amounts{cpuRequest: 100, cpuLimit: 200}); amountsOf(got.Spec.Containers[0].Resources) != want {
		t.Errorf("allocated %+v", got.Spec.Containers[0].Resources)
	}
	if !b.Waiting() {
		t.Error("the change does not wait any more")
	}
	if pod.Spec.Containers[0].Resources.Requests.Cpu().Value() != 9 {
		t.Error("the shared pod was changed")
	}
}

func TestRestartedProcessFinishesAnActuation(t *testing.T) {
	pod := podOf(2, "200m - - -")
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizeInProgress, Status: v1.ConditionTrue, ObservedGeneration: 2}}
	pod.Status.ContainerStatuses = []v1.ContainerStatus{statusOf("200m - - -", "100m - - -")}
	b := newBed()
	pod = b.Add(pod)
	b.Observe(pod, runs(pod))
	if acted, err := b.Apply(t.Context(), pod, runs(pod)); !acted || err != nil {
		t.Fatalf("acted %v, error %v", acted, err)
	}
	b.Observe(pod, runs(pod))
	if diff := cmp.Diff([]string{"ResizeCompleted"}, b.reasons()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestChangeThatCanNeverBeIsNotTriedAgain(t *testing.T) {
	infeasible := func(*v1.Pod, view) (string, string) { return v1.PodReasonInfeasible, "too small" }
	b := newBed()
	b.Add(podOf(1, "100m - - -"))
	b.Desire(podOf(2, "9 - - -"), infeasible)
	if got := b.Retry(always); len(got) != 0 || b.Waiting() {
		t.Errorf("tried again: %v", got)
	}
	if got := b.condition("u", v1.PodResizePending); got != "Infeasible too small gen=2" {
		t.Errorf("pending: %s", got)
	}
	if diff := cmp.Diff([]string{"ResizeInfeasible"}, b.reasons()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if pod := b.Desire(podOf(3, "1 - - -"), always); amountsOf(pod.Spec.Containers[0].Resources).cpuRequest != 1000 {
		t.Error("another wish was not tried")
	}
}

func TestPodThatIsDeletedGetsNothingNew(t *testing.T) {
	b := newBed()
	b.Add(podOf(1, "100m - - -"))
	b.Desire(podOf(2, "9 - - -"), never)
	deleted := podOf(2, "9 - - -")
	deleted.DeletionTimestamp = ptr.To(metav1.Now())
	pod := b.Desire(deleted, always)
	if b.Waiting() || len(b.Retry(always)) != 0 || amountsOf(pod.Spec.Containers[0].Resources).cpuRequest != 100 {
		t.Errorf("allocated %+v", pod.Spec.Containers[0].Resources)
	}
}

// What is asked of a process about a pod that changed while none ran.
func TestChangeMadeWithoutAProcessIsTriedBeforeAnythingIsMadeOfIt(t *testing.T) {
	made := func(told *v1.ContainerStatus, restart bool) (*bed, *v1.Pod, *cri.PodStatus) {
		pod := podOf(2, "200m - - -")
		pod.Status.ObservedGeneration = 1
		if told != nil {
			pod.Status.ContainerStatuses = []v1.ContainerStatus{*told}
		}
		if restart {
			pod.Spec.Containers[0].ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceCPU, RestartPolicy: v1.RestartContainer}}
		}
		b := newBed()
		allocated := b.Add(pod)
		if amountsOf(allocated.Spec.Containers[0].Resources).cpuRequest != 100 || !b.Waiting() {
			t.Fatalf("allocated %+v", allocated.Spec.Containers[0].Resources)
		}
		if got := b.condition("u", v1.PodResizePending); got != "Deferred "+messageUndecided+" gen=1" {
			t.Fatalf("a crash now would lose the change: %s", got)
		}
		st := runs(allocated)
		// The process before had come further than its status.
		st.Containers[0].Resources = &cri.LinuxResources{CPUShares: 204, CPUPeriod: 100000, CPUQuota: -1}
		return b, allocated, st
	}
	old := statusOf("100m - - -", "100m - - -")
	before := old
	before.ContainerID = "containerd://before"

	b, pod, st := made(&before, true)
	b.Observe(pod, st)
	if acted, err := b.Apply(t.Context(), pod, st); acted || err != nil || b.Restarts(pod, &pod.Spec.Containers[0], &st.Containers[0]) {
		t.Error("something was made of what is not decided")
	}
	if got := b.Retry(always); !slices.Equal(got, []types.UID{"u"}) {
		t.Fatalf("changed %v", got)
	}
	pod = b.Allocated(podOf(2, "200m - - -"))
	if b.Restarts(pod, &pod.Spec.Containers[0], &st.Containers[0]) {
		t.Error("a container that was made with what is allocated is restarted")
	}

	b, pod, _ = made(&old, false)
	b.Retry(never)
	if got := b.condition("u", v1.PodResizePending); got != "Deferred no room gen=2" {
		t.Errorf("pending: %s", got)
	}
	if diff := cmp.Diff([]string{"ResizeDeferred"}, b.reasons()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if b.Allocated(pod) != pod {
		t.Error("what is allocated changed")
	}
}

func TestContainersWithoutAChangeAreLeftAlone(t *testing.T) {
	b := newBed()
	pod := podOf(1, "100m 200m 10Mi 20Mi", "- - - -")
	pod.Status.ContainerStatuses = []v1.ContainerStatus{statusOf("100m - 10Mi -", "100m 200m 10Mi 20Mi")}
	pod = b.Add(pod)
	b.Observe(pod, runs(pod))
	if acted, err := b.Apply(t.Context(), pod, runs(pod)); acted || err != nil {
		t.Errorf("acted %v, error %v", acted, err)
	}
	if b.Restarts(pod, &pod.Spec.Containers[0], &runs(pod).Containers[0]) || len(b.Conditions("u")) != 0 || len(b.reasons()) != 0 {
		t.Error("a pod that nobody resized is not left alone")
	}
}

func TestWaitingChangesAreTriedInOrder(t *testing.T) {
	b := newBed()
	add := func(uid types.UID, from, to string, change func(*v1.Pod)) {
		old, next := podOf(1, from), podOf(2, to)
		for _, p := range []*v1.Pod{old, next} {
			p.UID = uid
			p.Status.QOSClass = v1.PodQOSBurstable
			change(p)
		}
		b.Add(old)
		b.Desire(next, never)
		b.clock.SetTime(b.clock.Now().Add(time.Minute))
	}
	plain := func(*v1.Pod) {}
	add("late-b", "1 - - -", "2 - - -", plain)
	add("late-c", "1 - - -", "2 - - -", plain)
	add("guaranteed", "1 - - -", "2 - - -", func(p *v1.Pod) { p.Status.QOSClass = v1.PodQOSGuaranteed })
	add("important", "1 - - -", "2 - - -", func(p *v1.Pod) { p.Spec.Priority = ptr.To(int32(10)) })
	add("shrinks", "2 - - -", "1 - - -", plain)
	var order []types.UID
	b.Retry(func(p *v1.Pod, _ view) (string, string) {
		order = append(order, p.UID)
		return v1.PodReasonDeferred, "no room"
	})
	if diff := cmp.Diff([]types.UID{"shrinks", "important", "guaranteed", "late-b", "late-c"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}
