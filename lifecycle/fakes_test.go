// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
)

// fakeAPI is the pods of an API server: it is the engine's pod source and its status sink. Each watcher made with
// source sees a list and then changes.
type fakeAPI struct {
	mu      sync.Mutex
	pods    map[types.UID]*v1.Pod
	watches []*fakeSource
	deletes []types.UID
	// onDelete is called with the API locked when a pod is about to vanish.
	onDelete func(uid types.UID)
}

func newFakeAPI() *fakeAPI { return &fakeAPI{pods: map[types.UID]*v1.Pod{}} }

// fakeSource is one watch.
type fakeSource struct {
	api    *fakeAPI
	events chan PodEvent
	ctx    context.Context //nolint:containedctx // ends deliveries when the engine stops.
}

func (a *fakeAPI) source() *fakeSource { return &fakeSource{api: a, events: make(chan PodEvent, 1000)} }

func (s *fakeSource) Run(ctx context.Context) {
	s.api.mu.Lock()
	s.ctx = ctx
	for _, p := range s.api.pods {
		s.events <- PodEvent{Type: PodAdded, Pod: p}
	}
	s.events <- PodEvent{Type: SourceSynced}
	s.api.watches = append(s.api.watches, s)
	s.api.mu.Unlock()
	<-ctx.Done()
}

func (s *fakeSource) Events() <-chan PodEvent { return s.events }

func (s *fakeSource) Live(_ context.Context, namespace, name string) (*v1.Pod, error) {
	return s.api.GetPod(context.Background(), namespace, name)
}

// publish tells every watch. Call it with mu held.
func (a *fakeAPI) publish(t PodEventType, p *v1.Pod) {
	for _, w := range a.watches {
		if w.ctx.Err() == nil {
			w.events <- PodEvent{Type: t, Pod: p}
		}
	}
}

func (a *fakeAPI) create(p *v1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pods[p.UID] = p
	a.publish(PodAdded, p)
}

// delete asks for a graceful deletion as kubectl does; grace 0 removes at once.
func (a *fakeAPI) delete(uid types.UID, grace int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.pods[uid].DeepCopy()
	if grace == 0 {
		a.vanish(p)
		return
	}
	p.DeletionGracePeriodSeconds = ptr.To(grace)
	p.DeletionTimestamp = ptr.To(metav1.NewTime(time.Now().Add(time.Duration(grace) * time.Second)))
	a.pods[uid] = p
	a.publish(PodUpdated, p)
}

// edit changes a pod behind the back of every watch.
func (a *fakeAPI) edit(uid types.UID, change func(*v1.Pod)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.pods[uid].DeepCopy()
	change(p)
	a.pods[uid] = p
}

func (a *fakeAPI) vanish(p *v1.Pod) {
	if a.onDelete != nil {
		a.onDelete(p.UID)
	}
	delete(a.pods, p.UID)
	a.publish(PodRemoved, p)
}

func (a *fakeAPI) get(uid types.UID) *v1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pods[uid]
}

func (a *fakeAPI) GetPod(_ context.Context, namespace, name string) (*v1.Pod, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.pods {
		if p.Namespace == namespace && p.Name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("pods %q: %w", name, errdefs.ErrNotFound)
}

func (a *fakeAPI) PatchPodStatus(_ context.Context, n types.NamespacedName, uid types.UID, _ string, patch []byte) (*v1.Pod, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	old, ok := a.pods[uid]
	if !ok {
		return nil, fmt.Errorf("pod %s: %w", n, errdefs.ErrNotFound)
	}
	before, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	after, err := strategicpatch.StrategicMergePatch(before, []byte(`{"status":`+string(patch)+"}"), v1.Pod{})
	if err != nil {
		return nil, err
	}
	p := &v1.Pod{}
	if err := json.Unmarshal(after, p); err != nil {
		return nil, err
	}
	a.pods[uid] = p
	a.publish(PodReconciled, p)
	return p, nil
}

func (a *fakeAPI) DeletePod(_ context.Context, n types.NamespacedName, uid types.UID) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, ok := a.pods[uid]
	if !ok {
		return fmt.Errorf("pod %s: %w", n, errdefs.ErrNotFound)
	}
	a.deletes = append(a.deletes, uid)
	a.vanish(p)
	return nil
}

// fakeMachine is always ready.
type fakeMachine struct{}

func (fakeMachine) Facts() *host.Facts {
	return &host.Facts{OS: "linux", RootDir: "/root-dir", PodLogsDir: "/var/log/pods", MemoryBytes: 8 << 30, CPUs: 2}
}
func (fakeMachine) RuntimeReady() error        { return nil }
func (fakeMachine) NetworkReady() error        { return nil }
func (fakeMachine) HostIPs() []string          { return []string{"192.0.2.1"} }
func (fakeMachine) ClockOffset() time.Duration { return 0 }

// fakeHost keeps pod directories as names and runs each hook once through the runtime.
type fakeHost struct {
	mu    sync.Mutex
	dirs  map[types.UID]bool
	hooks []string
	tiers []int64 // CPU shares of the burstable pods, as they were told
	run   func(ctx context.Context, req host.HookRequest) (*host.HookResult, error)
	// usage is what pods take of the disk; usageErr is what measuring ends with.
	usage    map[types.UID]*host.PodUsage
	usageErr error
	// tailErr is what reading a termination message ends with.
	tailErr error
}

var _ host.Host = (*fakeHost)(nil)

func newFakeHost() *fakeHost {
	return &fakeHost{dirs: map[types.UID]bool{}, usage: map[types.UID]*host.PodUsage{}, tailErr: errdefs.ErrNotFound}
}

func (h *fakeHost) Facts(context.Context) (*host.Facts, error) { return fakeMachine{}.Facts(), nil }

func (h *fakeHost) EnsurePod(_ context.Context, pod host.Pod, _ []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dirs[pod.UID] = true
	return nil
}

func (h *fakeHost) EnsureVolume(_ context.Context, uid types.UID, v host.Volume) (host.ReadyVolume, error) {
	return host.ReadyVolume{Path: path.Join("/root-dir/pods", string(uid), "volumes", v.Name)}, nil
}

func (h *fakeHost) WriteFiles(_ context.Context, uid types.UID, set host.FileSet) (string, error) {
	return path.Join("/root-dir/pods", string(uid), "volumes", set.Volume), nil
}

func (h *fakeHost) EnsureSubPath(_ context.Context, uid types.UID, part host.SubPath) (string, error) {
	return path.Join("/root-dir/pods", string(uid), "volume-subpaths", part.Volume, part.Path), nil
}

func (h *fakeHost) ReadVolumeFile(context.Context, types.UID, host.VolumeFile) ([]byte, error) {
	return nil, errdefs.ErrNotFound
}

func (h *fakeHost) PodUsage(_ context.Context, pod host.Pod, _ bool) (*host.PodUsage, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.usageErr != nil {
		return nil, h.usageErr
	}
	usage, ok := h.usage[pod.UID]
	if !ok {
		usage = &host.PodUsage{}
	}
	return usage, nil
}

func (h *fakeHost) setUsage(uid types.UID, usage *host.PodUsage, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.usage[uid], h.usageErr = usage, err
}

func (h *fakeHost) EnsureTerminationLog(_ context.Context, uid types.UID, c string, n int32) (string, error) {
	return fmt.Sprintf("/root-dir/pods/%s/containers/%s/%d", uid, c, n), nil
}

func (h *fakeHost) EnsurePodCgroup(_ context.Context, pod host.PodCgroup) (string, error) {
	return "/kubepods/pod" + string(pod.UID), nil
}

func (h *fakeHost) SetCgroupTiers(_ context.Context, burstableShares int64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tiers = append(h.tiers, burstableShares)
	return nil
}

func (h *fakeHost) EnsureHostsFile(_ context.Context, uid types.UID, _ []byte) (string, error) {
	return path.Join("/root-dir/pods", string(uid), "etc-hosts"), nil
}

func (h *fakeHost) EnsureIDRange(context.Context, types.UID) (host.IDRange, error) {
	return host.IDRange{First: host.IDsPerPod, Length: host.IDsPerPod}, nil
}

func (h *fakeHost) ListImageRecords(context.Context) ([]host.ImageRecord, error) { return nil, nil }

func (h *fakeHost) PutImageRecord(context.Context, host.ImageRecord) error { return nil }

func (h *fakeHost) RemovePod(_ context.Context, uid types.UID, _ bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.dirs, uid)
	return nil
}

func (h *fakeHost) ListPods(context.Context) ([]types.UID, error) { return nil, nil }

func (h *fakeHost) ReadLog(context.Context, host.LogRequest, io.Writer, io.Writer) error { return nil }

func (h *fakeHost) ReadTail(context.Context, string, int64) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return nil, h.tailErr
}

func (h *fakeHost) setTailErr(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tailErr = err
}

func (h *fakeHost) RestartCount(context.Context, host.Pod, string) (int32, error) { return 0, nil }

func (h *fakeHost) RemoveLogs(context.Context, string) error { return nil }

func (h *fakeHost) RunHook(ctx context.Context, req host.HookRequest) (*host.HookResult, error) {
	h.mu.Lock()
	key := req.Kind + " " + req.ContainerID
	if req.JoinOnly {
		defer h.mu.Unlock()
		if !slices.Contains(h.hooks, key) {
			return nil, errdefs.ErrNotFound
		}
		return &host.HookResult{}, nil
	}
	h.hooks = append(h.hooks, key)
	run := h.run
	h.mu.Unlock()
	if run != nil {
		return run(ctx, req)
	}
	return &host.HookResult{}, nil
}

func (h *fakeHost) hookRuns() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.hooks)
}

func (h *fakeHost) DialStreaming(context.Context, string) (net.Conn, error) {
	return nil, errdefs.ErrPermissionDenied
}

func (h *fakeHost) Probe(context.Context, host.ProbeRequest) (*host.ProbeResult, error) {
	return nil, errdefs.ErrNotImplemented
}

func (h *fakeHost) WatchPods(context.Context, host.WatchRequest, func(host.PodsChanged) error) error {
	return errdefs.ErrNotImplemented
}

func (h *fakeHost) DialPod(context.Context, string, uint16) (net.Conn, error) {
	return nil, errdefs.ErrNotFound
}

var testIdentity = cri.Identity{Cluster: "c", Node: "n"}
