// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

// Host is the machine beside the runtime. Its hooks belong to it: they outlive callers and links, and their records outlive
// its process.
type Host struct {
	gate
	trace   *Trace
	runtime *fakecri.Runtime
	// watches says whether it can watch pods.
	watches bool

	state    sync.Mutex
	pods     map[types.UID]string
	dirs     map[types.UID]bool
	hooks    map[hookKey]*hookRun
	manners  []hookManner
	messages map[string]string
	tries    map[string]func(n int) host.ProbeResult
	tried    map[string]int
}

var _ host.Host = (*Host)(nil)

func newHost(t *Trace, r *fakecri.Runtime) *Host {
	return &Host{
		trace: t, runtime: r, watches: true, pods: map[types.UID]string{}, dirs: map[types.UID]bool{},
		hooks: map[hookKey]*hookRun{}, messages: map[string]string{},
		tries: map[string]func(int) host.ProbeResult{}, tried: map[string]int{},
	}
}

// machineFacts are those of every host.
func machineFacts() *host.Facts {
	return &host.Facts{
		OS: "linux", RootDir: "/root-dir", PodLogsDir: "/var/log/pods", MemoryBytes: 8 << 30, CPUs: 2, CgroupVersion: 2,
		CgroupDriver: "cgroupfs", Clock: time.Now(),
	}
}

// Facts never change.
func (h *Host) Facts(ctx context.Context) (facts *host.Facts, err error) {
	err = h.call(ctx, "Facts", "", func(context.Context) error {
		facts = machineFacts()
		return nil
	})
	return facts, err
}

// EnsurePod notes that the pod has a directory.
func (h *Host) EnsurePod(ctx context.Context, pod host.Pod, _ []string) error {
	return h.call(ctx, "EnsurePod", pod.UID, func(context.Context) error {
		h.state.Lock()
		defer h.state.Unlock()
		h.dirs[pod.UID] = true
		return nil
	})
}

// EnsureVolume returns where the volume would be.
func (h *Host) EnsureVolume(ctx context.Context, uid types.UID, v host.Volume) (host.ReadyVolume, error) {
	err := h.call(ctx, "EnsureVolume", uid, func(context.Context) error { return nil })
	return host.ReadyVolume{Path: path.Join("/root-dir/pods", string(uid), "volumes", v.Name)}, err
}

// WriteFiles returns where the volume would be.
func (h *Host) WriteFiles(ctx context.Context, uid types.UID, set host.FileSet) (string, error) {
	err := h.call(ctx, "WriteFiles", uid, func(context.Context) error { return nil })
	return path.Join("/root-dir/pods", string(uid), "volumes", set.Volume), err
}

// EnsureSubPath returns where the part of a volume would be.
func (h *Host) EnsureSubPath(ctx context.Context, uid types.UID, part host.SubPath) (string, error) {
	err := h.call(ctx, "EnsureSubPath", uid, func(context.Context) error { return nil })
	return path.Join("/root-dir/pods", string(uid), "volume-subpaths", part.Volume, part.Path), err
}

// ReadVolumeFile finds no file.
func (h *Host) ReadVolumeFile(ctx context.Context, uid types.UID, file host.VolumeFile) ([]byte, error) {
	return nil, h.call(ctx, "ReadVolumeFile", uid, func(context.Context) error {
		return fmt.Errorf("file %q: %w", file.Path, errdefs.ErrNotFound)
	})
}

// PodUsage says that pods take nothing.
func (h *Host) PodUsage(ctx context.Context, pod host.Pod, _ bool) (*host.PodUsage, error) {
	return &host.PodUsage{}, h.call(ctx, "PodUsage", pod.UID, func(context.Context) error { return nil })
}

// EnsureTerminationLog returns where the file would be.
func (h *Host) EnsureTerminationLog(ctx context.Context, uid types.UID, c string, n int32) (string, error) {
	err := h.call(ctx, "EnsureTerminationLog", uid, func(context.Context) error { return nil })
	return fmt.Sprintf("/root-dir/pods/%s/containers/%s/%d", uid, c, n), err
}

// EnsurePodCgroup returns what its parent would be.
func (h *Host) EnsurePodCgroup(ctx context.Context, pod host.PodCgroup) (parent string, err error) {
	err = h.call(ctx, "EnsurePodCgroup", pod.UID, func(context.Context) error { return nil })
	return "/kubepods/pod" + string(pod.UID), err
}

// SetCgroupTiers does nothing.
func (h *Host) SetCgroupTiers(ctx context.Context, _ int64) error {
	return h.call(ctx, "SetCgroupTiers", "", func(context.Context) error { return nil })
}

// EnsureIDRange returns the same for every pod: no scenario has a pod with a user namespace.
func (h *Host) EnsureIDRange(ctx context.Context, uid types.UID) (host.IDRange, error) {
	err := h.call(ctx, "EnsureIDRange", uid, func(context.Context) error { return nil })
	return host.IDRange{First: host.IDsPerPod, Length: host.IDsPerPod}, err
}

// EnsureHostsFile returns where the file would be.
func (h *Host) EnsureHostsFile(ctx context.Context, uid types.UID, _ []byte) (string, error) {
	err := h.call(ctx, "EnsureHostsFile", uid, func(context.Context) error { return nil })
	return path.Join("/root-dir/pods", string(uid), "etc-hosts"), err
}

// ListImageRecords returns none: pods have no pull secrets.
func (h *Host) ListImageRecords(ctx context.Context) ([]host.ImageRecord, error) {
	return nil, h.call(ctx, "ListImageRecords", "", func(context.Context) error { return nil })
}

// PutImageRecord has nothing to do.
func (h *Host) PutImageRecord(ctx context.Context, _ host.ImageRecord) error {
	return h.call(ctx, "PutImageRecord", "", func(context.Context) error { return nil })
}

// RemovePod forgets the directory.
func (h *Host) RemovePod(ctx context.Context, uid types.UID, _ bool) error {
	return h.call(ctx, "RemovePod", uid, func(context.Context) error {
		h.state.Lock()
		defer h.state.Unlock()
		delete(h.dirs, uid)
		return nil
	})
}

// ListPods returns the directories.
func (h *Host) ListPods(ctx context.Context) (uids []types.UID, err error) {
	err = h.call(ctx, "ListPods", "", func(context.Context) error {
		uids = h.Dirs()
		return nil
	})
	return uids, err
}

// Dirs are the pods that have a directory.
func (h *Host) Dirs() []types.UID {
	h.state.Lock()
	defer h.state.Unlock()
	return slices.Sorted(maps.Keys(h.dirs))
}

// ReadLog writes nothing: containers are silent.
func (h *Host) ReadLog(ctx context.Context, _ host.LogRequest, _, _ io.Writer) error {
	return h.call(ctx, "ReadLog", "", func(context.Context) error { return nil })
}

// ReadTail returns the termination message of a path that SetMessage set.
func (h *Host) ReadTail(ctx context.Context, file string, limit int64) (b []byte, err error) {
	err = h.call(ctx, "ReadTail", "", func(context.Context) error {
		h.state.Lock()
		defer h.state.Unlock()
		text, ok := h.messages[file]
		if !ok {
			return fmt.Errorf("%s: %w", file, errdefs.ErrNotFound)
		}
		b = []byte(text)[max(0, len(text)-int(limit)):]
		return nil
	})
	return b, err
}

// SetMessage is the text a container leaves at its n-th restart.
func (h *Host) SetMessage(uid types.UID, container string, n int, text string) {
	h.state.Lock()
	defer h.state.Unlock()
	h.messages[fmt.Sprintf("/root-dir/pods/%s/containers/%s/%d", uid, container, n)] = text
}

// RestartCount is one more than the highest number of a log, of which each record leaves one.
func (h *Host) RestartCount(ctx context.Context, pod host.Pod, container string) (n int32, err error) {
	err = h.call(ctx, "RestartCount", pod.UID, func(context.Context) error {
		if attempt, ok := h.runtime.LastAttempt(pod.UID, container); ok {
			n = int32(attempt) + 1 //nolint:gosec // attempts are small.
		}
		return nil
	})
	return n, err
}

// RemoveLogs has nothing to do.
func (h *Host) RemoveLogs(ctx context.Context, _ string) error {
	return h.call(ctx, "RemoveLogs", "", func(context.Context) error { return nil })
}

// DialStreaming refuses.
func (h *Host) DialStreaming(context.Context, string) (net.Conn, error) {
	return nil, errdefs.ErrPermissionDenied
}

// DialPod refuses.
func (h *Host) DialPod(context.Context, string, uint16) (net.Conn, error) {
	return nil, errdefs.ErrNotFound
}

// OnProbe says how the n-th try of a probe of this target ends: a path of HTTP, a service of gRPC or "" for TCP.
func (h *Host) OnProbe(target string, f func(n int) host.ProbeResult) {
	h.state.Lock()
	defer h.state.Unlock()
	h.tries[target] = f
}

// Probe succeeds unless OnProbe says otherwise.
func (h *Host) Probe(ctx context.Context, req host.ProbeRequest) (result *host.ProbeResult, err error) {
	target := ""
	switch {
	case req.HTTPGet != nil:
		target = req.HTTPGet.Path
	case req.GRPC != nil:
		target = req.GRPC.Service
	}
	err = h.call(ctx, "Probe", "", func(context.Context) error {
		h.state.Lock()
		defer h.state.Unlock()
		result = &host.ProbeResult{Outcome: host.ProbeSuccess}
		if f := h.tries[target]; f != nil {
			h.tried[target]++
			r := f(h.tried[target])
			result = &r
		}
		return nil
	})
	return result, err
}

// relistPeriod is how often a watching host looks at the runtime.
const relistPeriod = time.Second

// WatchPods looks at the runtime every second, and ends when it cannot.
func (h *Host) WatchPods(ctx context.Context, req host.WatchRequest, changed func(host.PodsChanged) error) error {
	if !h.watches {
		return errdefs.ErrNotImplemented
	}
	return h.call(ctx, "WatchPods", "", func(ctx context.Context) error {
		tick := time.NewTicker(relistPeriod)
		defer tick.Stop()
		var before map[types.UID]uint64
		var told time.Time
		for {
			if err := h.runtime.Reachable(); err != nil {
				return err
			}
			pods, digest := h.look()
			msg := host.PodsChanged{UIDs: changedPods(before, pods), Digest: digest}
			for _, uid := range msg.UIDs {
				msg.Digests = append(msg.Digests, cmp.Or(pods[uid], host.PodsDigest(nil)))
			}
			if before == nil || len(msg.UIDs) > 0 || time.Since(told) >= req.DigestPeriod {
				if err := changed(msg); err != nil {
					return err
				}
				told = time.Now()
			}
			before = pods
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-tick.C:
			}
		}
	})
}

// look returns a digest of each pod, and one of everything.
func (h *Host) look() (pods map[types.UID]uint64, all uint64) {
	objects := map[types.UID][]host.ObjectState{}
	var every []host.ObjectState
	add := func(uid types.UID, o host.ObjectState) {
		objects[uid] = append(objects[uid], o)
		every = append(every, o)
	}
	for _, s := range h.runtime.Sandboxes("") {
		state := int32(1)
		if s.Ready {
			state = 0
		}
		add(s.UID, host.ObjectState{ID: s.ID, State: state})
	}
	for _, c := range h.runtime.Containers("") {
		add(c.UID, host.ObjectState{ID: c.ID, State: int32(c.State)})
	}
	pods = map[types.UID]uint64{}
	for uid, o := range objects {
		pods[uid] = host.PodsDigest(o)
	}
	return pods, host.PodsDigest(every)
}

func changedPods(before, after map[types.UID]uint64) []types.UID {
	var out []types.UID
	for uid, digest := range after {
		if old, ok := before[uid]; !ok || old != digest {
			out = append(out, uid)
		}
	}
	for uid := range before {
		if _, ok := after[uid]; !ok {
			out = append(out, uid)
		}
	}
	slices.Sort(out)
	return out
}

// Machine is always ready.
type Machine struct{}

// Facts are those of the host.
func (Machine) Facts() *host.Facts { return machineFacts() }

// RuntimeReady is always nil.
func (Machine) RuntimeReady() error { return nil }

// NetworkReady is always nil.
func (Machine) NetworkReady() error { return nil }

// HostIPs has one address.
func (Machine) HostIPs() []string { return []string{"192.0.2.1"} }

// ClockOffset is that of one machine.
func (Machine) ClockOffset() time.Duration { return 0 }

// preStopOf finds the preStop hook of a container, nil if there is none.
func preStopOf(p *v1.Pod, container string) *v1.LifecycleHandler {
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if list[i].Name == container && list[i].Lifecycle != nil {
				return list[i].Lifecycle.PreStop
			}
		}
	}
	return nil
}
