// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package fakecri

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func (s runtimeServer) CreateContainer(
	_ context.Context, req *runtimeapi.CreateContainerRequest,
) (*runtimeapi.CreateContainerResponse, error) {
	r, cfg := s.r, req.GetConfig()
	r.mu.Lock()
	defer r.mu.Unlock()
	box := r.sandboxes[req.GetPodSandboxId()]
	switch {
	case box == nil:
		return nil, notFound("sandbox", req.GetPodSandboxId())
	case !box.ready:
		return nil, fmt.Errorf("sandbox container %q is not running", box.id)
	case cfg.GetMetadata().GetName() == "":
		return nil, fmt.Errorf("%w: container metadata needs a name", errdefs.ErrInvalidArgument)
	case req.GetSandboxConfig() == nil:
		return nil, fmt.Errorf("%w: the sandbox's config is missing", errdefs.ErrInvalidArgument)
	}
	image, ok := r.resolve(cfg.GetImage().GetImage())
	if !ok {
		return nil, fmt.Errorf("failed to get image from containerd %q: %w", cfg.GetImage().GetImage(), errdefs.ErrNotFound)
	}
	name := containerName(cfg, box)
	for _, other := range r.containers {
		if containerName(other.config, other.box) == name {
			return nil, fmt.Errorf("failed to reserve container name %q: %w", name, reservedError{name, other.id})
		}
	}
	c := &container{
		id: r.nextID("c0"), config: cfg, box: box, image: image, created: r.clock.Now(), resources: resourcesOf(cfg),
	}
	c.behaviour = r.behaviour(Selector{UID: c.uid(), Container: c.name(), ID: c.id, Image: cfg.GetImage().GetImage()})
	r.containers[c.id] = c
	r.noteAttempt(c)
	r.tellOf(c, Event{Kind: ContainerMade})
	r.wake()
	return &runtimeapi.CreateContainerResponse{ContainerId: c.id}, nil
}

func containerName(cfg *runtimeapi.ContainerConfig, box *sandbox) string {
	m := box.config.GetMetadata()
	return fmt.Sprintf("%s_%s_%s_%s_%d", cfg.GetMetadata().GetName(), m.GetName(), m.GetNamespace(), m.GetUid(),
		cfg.GetMetadata().GetAttempt())
}

func (s runtimeServer) StartContainer(
	_ context.Context, req *runtimeapi.StartContainerRequest,
) (*runtimeapi.StartContainerResponse, error) {
	r := s.r
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle()
	c := r.containers[req.GetContainerId()]
	switch {
	case c == nil:
		return nil, notFound("container", req.GetContainerId())
	case c.state() != runtimeapi.ContainerState_CONTAINER_CREATED:
		return nil, fmt.Errorf("container %q is in %s state, cannot be started", c.id, c.state())
	case !c.box.ready:
		return nil, fmt.Errorf("sandbox container %q is not running", c.box.id)
	case c.behaviour.StartError != "":
		r.finish(c, r.clock.Now(), 128, "StartError")
		r.wake()
		return nil, errors.New(c.behaviour.StartError)
	}
	r.start(c)
	return &runtimeapi.StartContainerResponse{}, nil
}

// start makes the container live. The lock is held.
func (r *Runtime) start(c *container) {
	for _, other := range r.containers {
		if other.alive && other.uid() == c.uid() && other.name() == c.name() {
			r.violate(DoubleRunning, "container %q of pod %q started as %s while %s lives", c.name(), c.uid(), c.id, other.id)
		}
	}
	c.alive, c.started = true, r.clock.Now()
	r.tellOf(c, Event{Kind: ContainerStarted})
	if c.behaviour.Exits {
		c.exitAt = c.started.Add(c.behaviour.ExitAfter)
		c.exitCode, c.exitReason = c.behaviour.ExitCode, c.behaviour.ExitReason
	}
	r.wake()
}

func (s runtimeServer) RemoveContainer(
	_ context.Context, req *runtimeapi.RemoveContainerRequest,
) (*runtimeapi.RemoveContainerResponse, error) {
	r := s.r
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle()
	if c := r.containers[req.GetContainerId()]; c != nil {
		if c.alive {
			r.violate(RemovedRunning, "container %q (%s) of pod %q lived when it was removed", c.name(), c.id, c.uid())
		}
		delete(r.containers, c.id)
		r.tellOf(c, Event{Kind: ContainerRemoved})
		r.wake()
	}
	return &runtimeapi.RemoveContainerResponse{}, nil
}

func (s runtimeServer) ListContainers(
	_ context.Context, req *runtimeapi.ListContainersRequest,
) (*runtimeapi.ListContainersResponse, error) {
	r := s.r
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle()
	resp := &runtimeapi.ListContainersResponse{}
	for _, id := range sortedKeys(r.containers) {
		c := r.containers[id]
		if !selected(c.config.GetLabels(), req.GetFilter().GetLabelSelector()) {
			continue
		}
		resp.Containers = append(resp.Containers, &runtimeapi.Container{
			Id: id, PodSandboxId: c.box.id, Metadata: c.config.GetMetadata(), Image: c.config.GetImage(),
			ImageRef: c.image, ImageId: c.image, State: c.state(), CreatedAt: r.createdAt(c),
			Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations(),
		})
	}
	return resp, nil
}

func (s runtimeServer) ContainerStatus(
	_ context.Context, req *runtimeapi.ContainerStatusRequest,
) (*runtimeapi.ContainerStatusResponse, error) {
	r := s.r
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle()
	c := r.containers[req.GetContainerId()]
	if c == nil {
		return nil, notFound("container", req.GetContainerId())
	}
	status := &runtimeapi.ContainerStatus{
		Id: c.id, Metadata: c.config.GetMetadata(), State: c.state(),
		CreatedAt: r.createdAt(c), StartedAt: r.reported(c.started), FinishedAt: r.reported(c.finished),
		ExitCode: c.code, Reason: c.reason, Image: c.config.GetImage(), ImageRef: c.image, ImageId: c.image,
		Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations(), Mounts: c.config.GetMounts(),
		User: &runtimeapi.ContainerUser{Linux: &runtimeapi.LinuxContainerUser{}},
	}
	if c.resources != nil {
		status.Resources = &runtimeapi.ContainerResources{Linux: c.resources}
	}
	if tag, digest, ok := r.names(c.image); ok {
		status.Image, status.ImageRef = &runtimeapi.ImageSpec{Image: tag}, digest
	}
	if c.config.GetLogPath() != "" {
		status.LogPath = path.Join(c.box.config.GetLogDirectory(), c.config.GetLogPath())
	}
	return &runtimeapi.ContainerStatusResponse{Status: status}, nil
}

// createdAt is zero for a container that containerd could not load.
func (r *Runtime) createdAt(c *container) int64 {
	if c.lost {
		return 0
	}
	return r.reported(c.created)
}

// ExecFunc is what ExecSync does.
type ExecFunc func(ctx context.Context, c Container, cmd []string) (stdout string, exitCode int32, err error)

// HandleExec says what ExecSync does in running containers; without it every command ends at once with 0.
func (r *Runtime) HandleExec(f ExecFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.exec = f
}

func (s runtimeServer) ExecSync(
	ctx context.Context, req *runtimeapi.ExecSyncRequest,
) (*runtimeapi.ExecSyncResponse, error) {
	c, exec, err := s.r.execTarget(req.GetContainerId())
	if err != nil {
		return nil, err
	}
	if exec == nil {
		return &runtimeapi.ExecSyncResponse{}, nil
	}
	stdout, code, err := exec(ctx, c, req.GetCmd())
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ExecSyncResponse{Stdout: []byte(stdout), ExitCode: code}, nil
}

func (r *Runtime) execTarget(id string) (Container, ExecFunc, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle()
	c := r.containers[id]
	if c == nil {
		return Container{}, nil, notFound("container", id)
	}
	if c.state() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return Container{}, nil, fmt.Errorf("container is in %s state", c.state())
	}
	return c.view(), r.exec, nil
}

func (s runtimeServer) Exec(_ context.Context, req *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	if _, _, err := s.r.execTarget(req.GetContainerId()); err != nil {
		return nil, err
	}
	return &runtimeapi.ExecResponse{Url: streamURL("exec", req.GetContainerId())}, nil
}

func (s runtimeServer) Attach(_ context.Context, req *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	if _, _, err := s.r.execTarget(req.GetContainerId()); err != nil {
		return nil, err
	}
	return &runtimeapi.AttachResponse{Url: streamURL("attach", req.GetContainerId())}, nil
}

// container is one record. Its process is alive between start and finish, whatever state is reported.
type container struct {
	id        string
	config    *runtimeapi.ContainerConfig
	box       *sandbox
	image     string // id
	behaviour Behaviour
	// resources are never changed, only replaced; nil is not known.
	resources *runtimeapi.LinuxContainerResources
	usage     uint64 // bytes of memory

	created, started, finished time.Time
	alive                      bool
	lost                       bool // reported as UNKNOWN
	code                       int32
	reason                     string

	exitAt     time.Time // when it will end by itself; zero is never
	exitCode   int32
	exitReason string
	termSent   bool
	stops      map[*stopCall]struct{}
	signals    []Signal
}

func (c *container) uid() types.UID { return c.box.uid() }
func (c *container) name() string   { return c.config.GetMetadata().GetName() }

func (c *container) state() runtimeapi.ContainerState {
	switch {
	case c.lost:
		return runtimeapi.ContainerState_CONTAINER_UNKNOWN
	case c.alive:
		return runtimeapi.ContainerState_CONTAINER_RUNNING
	case !c.finished.IsZero():
		return runtimeapi.ContainerState_CONTAINER_EXITED
	default:
		return runtimeapi.ContainerState_CONTAINER_CREATED
	}
}

func (r *Runtime) signal(c *container, name string, at time.Time) {
	c.signals = append(c.signals, Signal{Name: name, At: at})
	r.tellOf(c, Event{Kind: Signalled, Signal: name, At: at})
}

func (r *Runtime) finish(c *container, at time.Time, code int32, reason string) {
	if reason == "" {
		reason = "Error"
		if code == 0 {
			reason = "Completed"
		}
	}
	c.alive, c.lost, c.finished, c.code, c.reason = false, false, at, code, reason
	r.tellOf(c, Event{Kind: ContainerEnded, At: at, ExitCode: code})
}

// exitKilled is the exit code after SIGKILL, exitTerminated after SIGTERM.
const (
	exitKilled     = 137
	exitTerminated = 143
)

// settle makes happen what was due: a container ends by itself, or is killed because somebody waits for its stop. The
// lock is held.
func (r *Runtime) settle() {
	now := r.clock.Now()
	for _, c := range r.containers {
		due, killed := c.next()
		if due.IsZero() || due.After(now) {
			continue
		}
		if killed {
			r.signal(c, "KILL", due)
			r.finish(c, due, exitKilled, "")
		} else {
			r.finish(c, due, c.exitCode, c.exitReason)
		}
		r.wake()
	}
}

// next returns when the container will end as things are, zero if never, and whether by being killed.
func (c *container) next() (due time.Time, killed bool) {
	if !c.alive {
		return time.Time{}, false
	}
	due = c.exitAt
	for stop := range c.stops {
		if due.IsZero() || stop.killAt.Before(due) {
			due, killed = stop.killAt, true
		}
	}
	return due, killed
}

// nextEvent returns when the next container will end, zero if none. The lock is held.
func (r *Runtime) nextEvent() time.Time {
	var first time.Time
	for _, c := range r.containers {
		if due, _ := c.next(); !due.IsZero() && (first.IsZero() || due.Before(first)) {
			first = due
		}
	}
	return first
}

// containersOf returns the containers in a sandbox. The lock is held.
func (r *Runtime) containersOf(sandboxID string) []*container {
	var out []*container
	for _, id := range sortedKeys(r.containers) {
		if c := r.containers[id]; c.box.id == sandboxID {
			out = append(out, c)
		}
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
