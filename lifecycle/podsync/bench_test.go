// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
	"github.com/tombolo-dev/tombolo/lifecycle/termination"
	"github.com/tombolo-dev/tombolo/lifecycle/volume"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

// bench is one pod on a runtime in memory, synced on the clock of a synctest bubble.
type bench struct {
	rt      *fakecri.Runtime
	pod     *v1.Pod
	images  *fakeImages
	volumes *fakeVolumes
	files   *fakeFiles
	logs    *fakeLogs
	facts   *host.Facts
	hooks   *fakeHooks
	probes  fakeProbes
	objects *fakeObjects
	events  *events
	users   *fakeUsers
	node    *v1.Node
	syncer  *Syncer
}

func newBench(rt *fakecri.Runtime, policy v1.RestartPolicy, containers string) *bench {
	b := &bench{
		rt: rt, pod: testPod(policy, containers), events: &events{}, volumes: &fakeVolumes{}, files: &fakeFiles{},
		logs: &fakeLogs{next: map[string]int32{}}, hooks: newFakeHooks(), probes: fakeProbes{},
		facts: &host.Facts{PodLogsDir: "/var/log/pods", RootDir: "/var/lib/tombolo", MemoryBytes: 8 << 30, CgroupVersion: 2},
	}
	b.pod.Spec.TerminationGracePeriodSeconds = new(int64(5))
	b.images = &fakeImages{client: rt.Client()}
	b.objects = &fakeObjects{}
	b.users = &fakeUsers{}
	b.restart()
	return b
}

// restart is what happens when the process dies: all that is remembered is gone.
func (b *bench) restart() {
	client := namingClient{Client: b.rt.Client(), hooks: b.hooks}
	b.syncer = New(Options{
		Runtime: client, Images: b.images, Volumes: b.volumes, Files: b.files, Logs: b.logs, Hooks: b.hooks, Probes: b.probes, Objects: b.objects,
		Killer: termination.New(termination.Options{
			Runtime: client, Hooks: b.hooks, Clock: clock.RealClock{}, Recorder: b.events,
		}),
		Identity: fakecri.DefaultIdentity, Facts: func() *host.Facts { return b.facts },
		Users: b.users, Node: func() *v1.Node { return b.node },
		HostIPs:    func() []string { return []string{"192.0.2.1"} },
		ClusterDNS: []string{"10.96.0.10"}, ClusterDomain: "cluster.local", Clock: clock.RealClock{}, Recorder: b.events,
	})
}

// namingClient tells the hooks which container is whose.
type namingClient struct {
	*cri.Client
	hooks *fakeHooks
}

func (n namingClient) CreateContainer(
	ctx context.Context, sandboxID string, cfg *runtimeapi.ContainerConfig, sandbox *runtimeapi.PodSandboxConfig,
) (string, error) {
	id, err := n.Client.CreateContainer(ctx, sandboxID, cfg, sandbox)
	n.hooks.mu.Lock()
	defer n.hooks.mu.Unlock()
	n.hooks.names[id] = cfg.GetMetadata().GetName()
	return id, err
}

// sync observes and syncs once, as a pod worker does.
func (b *bench) sync(t *testing.T) Result {
	t.Helper()
	return b.syncer.Sync(t.Context(), b.pod, b.observe(t))
}

func (b *bench) mustSync(t *testing.T) Result {
	t.Helper()
	r := b.sync(t)
	if r.Err != nil {
		t.Fatalf("Sync: %v", r.Err)
	}
	return r
}

// observe looks at the runtime as a relist does.
func (b *bench) observe(t *testing.T) *cri.PodStatus {
	t.Helper()
	client, observed := b.rt.Client(), time.Now()
	boxes, err := client.ListSandboxes(t.Context(), b.pod.UID)
	if err != nil {
		t.Fatal(err)
	}
	var sandboxes []cri.SandboxStatus
	for _, box := range boxes {
		status, err := client.SandboxStatus(t.Context(), box.GetId())
		if err != nil {
			t.Fatal(err)
		}
		sandboxes = append(sandboxes, cri.SandboxFacts(status))
	}
	list, err := client.ListContainers(t.Context(), b.pod.UID)
	if err != nil {
		t.Fatal(err)
	}
	var containers []cri.ContainerStatus
	for _, c := range list {
		status, err := client.ContainerStatus(t.Context(), c.GetId())
		if err != nil {
			t.Fatal(err)
		}
		facts := cri.ContainerFacts(status)
		facts.SandboxID = c.GetPodSandboxId()
		containers = append(containers, facts)
	}
	return cri.AssemblePodStatus(b.pod.UID, b.pod.Name, b.pod.Namespace, sandboxes, containers, observed)
}

func (b *bench) newest(t *testing.T, name string) fakecri.Container {
	t.Helper()
	c, ok := b.rt.Newest(b.pod.UID, name)
	if !ok {
		t.Fatalf("no record of container %s", name)
	}
	return c
}

func (b *bench) exit(t *testing.T, name string, code int32) {
	t.Helper()
	b.rt.Exit(b.newest(t, name).ID, code)
}

// wantRecords compares the records of the pod, oldest first, as "NAME/ATTEMPT STATE".
func (b *bench) wantRecords(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for _, c := range b.rt.Containers(b.pod.UID) {
		state := strings.ToLower(strings.TrimPrefix(c.State.String(), "CONTAINER_"))
		got = append(got, fmt.Sprintf("%s/%d %s", c.Name, c.Attempt, state))
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

func (b *bench) wantWaiting(t *testing.T, container, reason, message string) {
	t.Helper()
	gotReason, gotMessage, ok := b.syncer.WaitingReason(b.pod.UID, container)
	if ok != (reason != "") || gotReason != reason || gotMessage != message {
		t.Errorf("%s waits for %q %q, want %q %q", container, gotReason, gotMessage, reason, message)
	}
}

// scenario runs a test on fake time with a runtime that watches over its invariants.
func scenario(t *testing.T, f func(t *testing.T, rt *fakecri.Runtime)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, fakecri.Start(t, fakecri.Options{})) })
}

type fakeImages struct {
	client *cri.Client
	err    error
	hang   bool
	// missing is an image that cannot be pulled.
	missing string
}

func (f *fakeImages) EnsureImage(ctx context.Context, _ *v1.Pod, c *v1.Container, sandbox *runtimeapi.PodSandboxConfig) (string, error) {
	if f.hang {
		<-ctx.Done()
		return "", ctx.Err()
	}
	if f.err != nil {
		return "", f.err
	}
	if c.Image == f.missing {
		return "", &imageError{"ErrImagePull", c.Image + " is missing"}
	}
	return f.client.PullImage(ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: c.Image}, SandboxConfig: sandbox})
}

func (f *fakeImages) Forget(types.UID) {}

// imageError is an error about an image.
type imageError struct{ reason, message string }

func (e *imageError) Error() string         { return e.message }
func (e *imageError) WaitingReason() string { return e.reason }

type fakeVolumes struct {
	images                   map[string]string // of the last mounts
	prepare, mounts, refresh error
	prepared, refreshed      int
	anew                     bool
}

func (f *fakeVolumes) Prepare(_ context.Context, _ *v1.Pod, anew bool) error {
	f.prepared++
	f.anew = anew
	return f.prepare
}

func (f *fakeVolumes) ReadFile(context.Context, *v1.Pod, string, string) ([]byte, error) {
	return []byte("NAME='from a file'"), nil
}

func (f *fakeVolumes) Devices(*v1.Pod, *v1.Container) ([]*runtimeapi.Device, error) { return nil, nil }

func (f *fakeVolumes) Refresh(context.Context, *v1.Pod) error {
	f.refreshed++
	return f.refresh
}

func (f *fakeVolumes) Mounts(_ context.Context, in volume.MountInput) ([]*runtimeapi.Mount, error) {
	c, n := in.Container, in.RestartCount
	f.images = in.Images
	path := "/pods/" + c.Name + "/" + strconv.Itoa(int(n))
	return []*runtimeapi.Mount{{HostPath: path, ContainerPath: "/dev/termination-log"}}, f.mounts
}

// fakeObjects is an API that has no objects, or does not answer.
type fakeObjects struct {
	err error
	// asked is called at each read, unless it is nil.
	asked func()
}

func (f *fakeObjects) ConfigMap(_ context.Context, _ *v1.Pod, name string) (*v1.ConfigMap, error) {
	return nil, cmp.Or(f.err, fmt.Errorf("configmap %q %w", name, errdefs.ErrNotFound))
}

func (f *fakeObjects) Secret(_ context.Context, _ *v1.Pod, name string) (*v1.Secret, error) {
	if f.asked != nil {
		f.asked()
	}
	return nil, cmp.Or(f.err, fmt.Errorf("secret %q %w", name, errdefs.ErrNotFound))
}

func (f *fakeObjects) Services(context.Context, string) ([]*v1.Service, error) { return nil, nil }

// fakeFiles keeps the hosts file that was last asked for.
type fakeFiles struct {
	hosts string
	err   error
}

func (f *fakeFiles) EnsureHostsFile(_ context.Context, uid types.UID, content []byte) (string, error) {
	f.hosts = string(content)
	return "/pods/" + string(uid) + "/etc-hosts", f.err
}

type fakeLogs struct {
	next    map[string]int32
	err     error
	asked   int
	removed []string
}

func (f *fakeLogs) RestartCount(_ context.Context, _ host.Pod, container string) (int32, error) {
	f.asked++
	return f.next[container], f.err
}

func (f *fakeLogs) RemoveLogs(_ context.Context, path string) error {
	f.removed = append(f.removed, path)
	return f.err
}

// fakeHooks is a host that runs hooks and remembers how they ended, by kind and container.
type fakeHooks struct {
	mu sync.Mutex
	// plan says how hooks end, by the container's name; a hook without a plan succeeds at once.
	plan  map[string]hookPlan
	names map[string]string // of containers, by id
	ended map[string]*host.HookResult
	// begun are the hooks that were begun, as "KIND NAME"; asked counts the requests.
	begun    []string
	asked    int
	requests []host.HookRequest
}

type hookPlan struct {
	takes  time.Duration
	result host.HookResult
	err    error
}

func newFakeHooks() *fakeHooks {
	return &fakeHooks{plan: map[string]hookPlan{}, names: map[string]string{}, ended: map[string]*host.HookResult{}}
}

func (f *fakeHooks) RunHook(ctx context.Context, req host.HookRequest) (*host.HookResult, error) {
	key := req.Kind + " " + req.ContainerID
	f.mu.Lock()
	name := f.names[req.ContainerID]
	plan := f.plan[name]
	f.asked++
	f.requests = append(f.requests, req)
	if plan.err != nil {
		f.mu.Unlock()
		return nil, plan.err
	}
	if f.ended[key] == nil {
		f.begun = append(f.begun, req.Kind+" "+name)
		f.ended[key] = &plan.result
	}
	result := f.ended[key]
	f.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(plan.takes):
		return result, nil
	}
}

// fakeProbes are probe results by kind and container id; what is missing is unknown.
type fakeProbes map[string]podrules.ProbeResult

func (f fakeProbes) ProbeResult(kind podrules.ProbeKind, id string) podrules.ProbeResult {
	return f[string(kind)+" "+id]
}

// events records what the user is told, as "Reason FIELDPATH: message".
type events struct {
	record.EventRecorder
	mu   sync.Mutex
	list []string
}

func (e *events) Event(object runtime.Object, _, reason, message string) {
	ref, ok := object.(*v1.ObjectReference)
	if !ok {
		panic(fmt.Sprintf("event on a %T", object))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, strings.TrimSpace(reason+" "+ref.FieldPath)+": "+message)
}

// take returns the events since the last call.
func (e *events) take() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := slices.Clone(e.list)
	e.list = nil
	return out
}

func (b *bench) wantEvents(t *testing.T, want ...string) {
	t.Helper()
	if diff := gocmp.Diff(want, b.events.take()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
