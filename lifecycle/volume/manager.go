// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"fmt"
	"sync"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
)

// Dirs is the host's part of the work. Every method is idempotent, and the caller repeats one whose answer was lost.
type Dirs interface {
	EnsurePod(ctx context.Context, pod host.Pod, containers []string) error
	EnsureVolume(ctx context.Context, uid types.UID, volume host.Volume) (path string, err error)
	EnsureTerminationLog(ctx context.Context, uid types.UID, container string, restartCount int32) (path string, err error)
	RemovePod(ctx context.Context, uid types.UID, removeLogs bool) error
}

// Options are what a Manager needs. Dirs is required.
type Options struct {
	Dirs Dirs
}

// Manager makes volumes ready. See the package documentation for its concurrency.
type Manager struct {
	dirs Dirs

	mu    sync.Mutex
	ready map[types.UID]prepared
}

// prepared is a pod that is fully prepared.
type prepared struct {
	// paths are the host paths of its volumes. The map is not changed any more.
	paths map[string]string
	// containers is the number of its containers then: ephemeral ones may be added to a pod that runs.
	containers int
}

// New returns a Manager.
func New(o Options) *Manager {
	return &Manager{dirs: o.Dirs, ready: map[types.UID]prepared{}}
}

// Prepare makes the pod's directories and every volume that one of its containers mounts. Once it succeeded it does
// nothing for this pod until Cleanup or another ephemeral container, so it may be called at every sync; after a failure the next call tries again.
//
// An *UnmountedError is about the volumes and to be told by the event FailedMount. Every other error says that the host
// could not be asked or could not make the directories.
func (m *Manager) Prepare(ctx context.Context, pod *v1.Pod) error {
	names := containerNames(&pod.Spec)
	if m.preparedFor(pod.UID) == len(names) {
		return nil
	}
	identity := host.Pod{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}
	if err := m.dirs.EnsurePod(ctx, identity, names); err != nil {
		return fmt.Errorf("making the directories of pod \"%s/%s\": %w", pod.Namespace, pod.Name, err)
	}
	paths, err := m.setUp(ctx, pod)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ready[pod.UID] = prepared{paths: paths, containers: len(names)}
	return nil
}

// setUp makes the mounted volumes and returns their paths. A broken volume does not keep the others from being made.
func (m *Manager) setUp(ctx context.Context, pod *v1.Pod) (map[string]string, error) {
	mounted := mountedVolumes(&pod.Spec)
	paths := make(map[string]string, len(mounted))
	var causes []*SetUpError
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if !mounted[v.Name] {
			continue
		}
		path, err := m.ensure(ctx, pod.UID, v)
		switch {
		case err == nil:
			paths[v.Name] = path
		case ctx.Err() != nil || cri.OutcomeUnknown(err):
			return nil, fmt.Errorf("making volume %q of pod \"%s/%s\" ready: %w", v.Name, pod.Namespace, pod.Name, err)
		default:
			causes = append(causes, &SetUpError{Volume: v.Name, Err: err})
		}
	}
	if len(causes) > 0 {
		return nil, &UnmountedError{Causes: causes}
	}
	return paths, nil
}

func (m *Manager) ensure(ctx context.Context, uid types.UID, v *v1.Volume) (string, error) {
	switch {
	case v.EmptyDir != nil:
		if v.EmptyDir.Medium != v1.StorageMediumDefault {
			return "", fmt.Errorf("emptyDir medium %q is not supported: %w", v.EmptyDir.Medium, errdefs.ErrNotImplemented)
		}
		return m.dirs.EnsureVolume(ctx, uid, host.Volume{Name: v.Name, EmptyDir: true})
	case v.HostPath != nil:
		want := host.Volume{Name: v.Name, HostPath: v.HostPath.Path}
		if v.HostPath.Type != nil {
			want.HostPathType = string(*v.HostPath.Type)
		}
		return m.dirs.EnsureVolume(ctx, uid, want)
	default:
		return "", fmt.Errorf("volumes of this kind are not supported: %w", errdefs.ErrNotImplemented)
	}
}

// Cleanup removes the pod's volumes and directory from the host; its logs stay. It is called when nothing of the pod
// runs and nothing will. It is idempotent.
func (m *Manager) Cleanup(ctx context.Context, uid types.UID) error {
	m.mu.Lock()
	delete(m.ready, uid)
	m.mu.Unlock()
	if err := m.dirs.RemovePod(ctx, uid, false); err != nil {
		return fmt.Errorf("removing the directory of pod %s: %w", uid, err)
	}
	return nil
}

// preparedFor returns how many containers the pod is prepared for, 0 if it is not prepared.
func (m *Manager) preparedFor(uid types.UID) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ready[uid].containers
}

// paths returns the volume paths of a prepared pod, nil if it is not prepared.
func (m *Manager) paths(uid types.UID) map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ready[uid].paths
}

func containerNames(spec *v1.PodSpec) []string {
	names := make([]string, 0, len(spec.InitContainers)+len(spec.Containers)+len(spec.EphemeralContainers))
	for i := range spec.InitContainers {
		names = append(names, spec.InitContainers[i].Name)
	}
	for i := range spec.Containers {
		names = append(names, spec.Containers[i].Name)
	}
	for i := range spec.EphemeralContainers {
		names = append(names, spec.EphemeralContainers[i].Name)
	}
	return names
}

// mountedVolumes names the volumes that a container uses; others are never made, as in the kubelet.
func mountedVolumes(spec *v1.PodSpec) map[string]bool {
	used := map[string]bool{}
	use := func(mounts []v1.VolumeMount) {
		for i := range mounts {
			used[mounts[i].Name] = true
		}
	}
	for i := range spec.InitContainers {
		use(spec.InitContainers[i].VolumeMounts)
	}
	for i := range spec.Containers {
		use(spec.Containers[i].VolumeMounts)
	}
	for i := range spec.EphemeralContainers {
		use(spec.EphemeralContainers[i].VolumeMounts)
	}
	return used
}
