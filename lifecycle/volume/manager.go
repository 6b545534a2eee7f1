// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// Dirs makes the directories of pods on the host. Every method is idempotent, and the caller repeats one whose answer was
// lost.
type Dirs interface {
	EnsurePod(ctx context.Context, pod host.Pod, containers []string) error
	EnsureVolume(ctx context.Context, uid types.UID, volume host.Volume) (host.ReadyVolume, error)
	EnsureTerminationLog(ctx context.Context, uid types.UID, container string, restartCount int32) (path string, err error)
	RemovePod(ctx context.Context, uid types.UID, removeLogs bool) error
}

// Objects reads what volumes refer to. What it returns is shared and must not be changed. An error of class NotFound says
// that the API has no such object; any other, but that of ctx, that it could not be read, whatever its class.
type Objects interface {
	// ConfigMap returns a ConfigMap of the pod's namespace.
	ConfigMap(ctx context.Context, pod *v1.Pod, name string) (*v1.ConfigMap, error)
	// Secret returns a Secret of the pod's namespace.
	Secret(ctx context.Context, pod *v1.Pod, name string) (*v1.Secret, error)
	// Token returns a token of the pod's service account for an audience, the API server's own if that is empty. It is good
	// for the given time, an hour if that is zero.
	Token(ctx context.Context, pod *v1.Pod, audience string, expirationSeconds int64) (string, error)
}

// Options are what a Manager needs. All fields but Plugins are required.
type Options struct {
	Dirs    Dirs
	Files   host.Volumes
	Objects Objects
	Claims  Claims
	Bundles TrustBundles
	Keys    PodCertificates
	// Plugins make PersistentVolumes ready beside those that name what exists on the host. It may be empty.
	Plugins []Plugin
	// NodeLabels returns the labels of the node, nil as long as they are not known.
	NodeLabels func() map[string]string
	// Allocatable returns what the node can give to pods, nil as long as that is not known.
	Allocatable func() v1.ResourceList
	// Recorder takes the events about what takes long, or is not as the pod wants it.
	Recorder record.EventRecorder
	Clock    clock.Clock
}

// Manager makes volumes ready. See the package documentation for its concurrency.
type Manager struct {
	opts    Options
	plugins []Plugin

	mu   sync.Mutex
	pods map[types.UID]state
}

// state is what is known of a pod's volumes. Its maps are not changed any more.
type state struct {
	// ready says that every volume was made; places are where they are on the host.
	ready  bool
	places map[string]place
	// containers is the number of containers then: ephemeral ones may be added to a pod that runs.
	containers int
	// written are the digests of the file sets that the host was given last, by volume.
	written map[string]digest
	// failing is since when the volumes cannot be made ready.
	failing time.Time
}

// place is where a volume is.
type place struct {
	path string
	// readOnly says that it is never mounted for writing; block says that it is a disk and not a directory.
	readOnly, block bool
	// label says that the runtime gives it the label of the container, although it is not below the pod's directory.
	label bool
}

// New returns a Manager.
func New(o Options) *Manager {
	return &Manager{opts: o, plugins: append([]Plugin{existing{o.Dirs, o.Recorder, o.Clock}}, o.Plugins...), pods: map[types.UID]state{}}
}

// Prepare makes the pod's directories and every volume that one of its containers mounts. Once it succeeded it does nothing
// for this pod until Cleanup, or another ephemeral container, or with anew: what was in memory is gone when the host has booted,
// and then nothing of the pod runs any more. So it may be called at every sync; after a failure the next call tries again.
//
// An *UnmountedError is about the volumes and to be told by the event FailedMount. Every other error says that the host
// could not be asked or could not make the directories.
func (m *Manager) Prepare(ctx context.Context, pod *v1.Pod, anew bool) error {
	names := containerNames(pod)
	before := m.state(pod.UID)
	if before.ready && before.containers == len(names) && !anew {
		return nil
	}
	if anew {
		before.written = nil
	}
	identity := host.Pod{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}
	if err := m.opts.Dirs.EnsurePod(ctx, identity, names); err != nil {
		return fmt.Errorf("making the directories of pod \"%s/%s\": %w", pod.Namespace, pod.Name, err)
	}
	s := m.newSetUp(pod, before)
	s.anew = anew
	if err := s.run(ctx, func(*v1.Volume) bool { return true }); err != nil {
		before.places, before.written = s.places, s.written
		m.remember(pod.UID, before)
		return err
	}
	after := state{ready: len(s.causes) == 0, places: s.places, containers: len(names), written: s.written}
	if !after.ready {
		after.failing = before.failing
		if after.failing.IsZero() {
			after.failing = m.opts.Clock.Now()
		}
	}
	m.remember(pod.UID, after)
	return s.err(after.failing)
}

// Refresh brings the contents of volumes up to date that were made before, by this process or one before it. It is cheap if
// nothing changed. An *UnmountedError names those that could not be brought up to date; they keep what they have.
func (m *Manager) Refresh(ctx context.Context, pod *v1.Pod) error {
	before := m.state(pod.UID)
	s := m.newSetUp(pod, before)
	err := s.run(ctx, isFileSet)
	before.places, before.written = s.places, s.written
	m.remember(pod.UID, before)
	if err != nil {
		return err
	}
	return s.err(before.failing)
}

// Cleanup removes the pod's volumes and directory from the host; its logs stay. It is called when nothing of the pod
// runs and nothing will. It is idempotent.
func (m *Manager) Cleanup(ctx context.Context, uid types.UID) error {
	m.mu.Lock()
	delete(m.pods, uid)
	m.mu.Unlock()
	if err := m.opts.Dirs.RemovePod(ctx, uid, false); err != nil {
		return fmt.Errorf("removing the directory of pod %s: %w", uid, err)
	}
	return nil
}

func (m *Manager) state(uid types.UID) state {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pods[uid]
}

func (m *Manager) remember(uid types.UID, s state) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pods[uid] = s
}

func containerNames(pod *v1.Pod) []string {
	var names []string
	for _, c := range podrules.Containers(pod) {
		names = append(names, c.Name)
	}
	return names
}

// usesOf says whether some container mounts a volume, and whether one has it as a device. One that nobody uses is never made, as
// in the kubelet.
func usesOf(spec *v1.PodSpec, volume string) (mounted, mapped bool) {
	for _, mounts := range volumeMounts(spec) {
		mounted = mounted || slices.ContainsFunc(mounts, func(m v1.VolumeMount) bool { return m.Name == volume })
	}
	is := func(d v1.VolumeDevice) bool { return d.Name == volume }
	for i := range spec.InitContainers {
		mapped = mapped || slices.ContainsFunc(spec.InitContainers[i].VolumeDevices, is)
	}
	for i := range spec.Containers {
		mapped = mapped || slices.ContainsFunc(spec.Containers[i].VolumeDevices, is)
	}
	return mounted, mapped
}
