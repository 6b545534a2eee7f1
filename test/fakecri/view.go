// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package fakecri

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Signal is a signal that the container's first process got.
type Signal struct {
	Name string // "TERM" or "KILL"
	At   time.Time
}

// Container is the truth about one container record.
type Container struct {
	ID        string
	SandboxID string
	UID       types.UID
	Name      string
	Attempt   uint32
	State     runtimeapi.ContainerState
	// Alive says that its process lives, which state UNKNOWN hides.
	Alive      bool
	CreatedAt  time.Time
	StartedAt  time.Time
	FinishedAt time.Time
	ExitCode   int32
	Reason     string
	Signals    []Signal
	// Config is what it was created with; it must not be changed.
	Config *runtimeapi.ContainerConfig
	// Resources are those in effect, nil if none were ever given; they must not be changed.
	Resources *runtimeapi.LinuxContainerResources
}

// Sandbox is the truth about one sandbox.
type Sandbox struct {
	ID        string
	UID       types.UID
	Attempt   uint32
	Ready     bool
	IP        string
	CreatedAt time.Time
	// Config is what it was made with; it must not be changed.
	Config *runtimeapi.PodSandboxConfig
	// Told are the changes of its resources that the runtime was told.
	Told []*runtimeapi.UpdatePodSandboxResourcesRequest
}

func (c *container) view() Container {
	return Container{
		ID: c.id, SandboxID: c.box.id, UID: c.uid(), Name: c.name(), Attempt: c.config.GetMetadata().GetAttempt(),
		State: c.state(), Alive: c.alive, CreatedAt: c.created, StartedAt: c.started, FinishedAt: c.finished,
		ExitCode: c.code, Reason: c.reason, Signals: slices.Clone(c.signals), Config: c.config, Resources: c.resources,
	}
}

// Container returns the record with the id; ok is false if there is none.
func (r *Runtime) Container(id string) (c Container, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle()
	found := r.containers[id]
	if found == nil {
		return Container{}, false
	}
	return found.view(), true
}

// Containers returns the records of a pod (all pods if uid is empty), oldest first.
func (r *Runtime) Containers(uid types.UID) []Container {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle()
	var out []Container
	for _, id := range sortedKeys(r.containers) {
		if c := r.containers[id]; uid == "" || c.uid() == uid {
			out = append(out, c.view())
		}
	}
	return out
}

// Newest returns the newest record of the named container; ok is false if there is none.
func (r *Runtime) Newest(uid types.UID, name string) (c Container, ok bool) {
	for _, each := range r.Containers(uid) {
		if each.Name == name {
			c, ok = each, true
		}
	}
	return c, ok
}

// Running returns the names of the pod's live containers in the order in which they were created.
func (r *Runtime) Running(uid types.UID) []string {
	var names []string
	for _, c := range r.Containers(uid) {
		if c.Alive {
			names = append(names, c.Name)
		}
	}
	return names
}

// Sandboxes returns the sandboxes of a pod (all pods if uid is empty), oldest first.
func (r *Runtime) Sandboxes(uid types.UID) []Sandbox {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Sandbox
	for _, id := range sortedKeys(r.sandboxes) {
		if s := r.sandboxes[id]; uid == "" || s.uid() == uid {
			out = append(out, Sandbox{
				ID: id, UID: s.uid(), Attempt: s.config.GetMetadata().GetAttempt(), Ready: s.ready, IP: s.ip,
				CreatedAt: s.created, Config: s.config, Told: slices.Clone(s.told),
			})
		}
	}
	return out
}
