// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// ContainerState is the state of a container as the runtime reports it.
type ContainerState int

// The states of a container. Created means that CreateContainer returned and StartContainer was not (successfully)
// called; Unknown means that the runtime lost the container.
const (
	ContainerUnknown ContainerState = iota
	ContainerCreated
	ContainerRunning
	ContainerExited
)

// String returns the state's name as used in logs.
func (s ContainerState) String() string {
	switch s {
	case ContainerCreated:
		return "created"
	case ContainerRunning:
		return "running"
	case ContainerExited:
		return "exited"
	default:
		return "unknown"
	}
}

// PodStatus is one complete observation of one pod in the runtime. It is immutable once published: readers share it and
// never change it.
type PodStatus struct {
	UID       types.UID
	Name      string
	Namespace string
	// IPs are those of the newest sandbox while it is ready, primary first. The pod cache keeps the last known ones
	// after the sandbox stopped.
	IPs []string
	// Sandboxes are sorted newest first (attempt, then creation time, then id).
	Sandboxes []SandboxStatus
	// Containers are all records of the pod's containers, running or not, sorted newest creation first.
	Containers []ContainerStatus
	// ExitHooks are the records of containers that run the preStop hook of one that ended by itself, sorted alike. They are
	// not the pod's: nothing that is said of it counts them.
	ExitHooks []ContainerStatus
	// ObservedAt is the local time taken before the first RPC of the observation was issued.
	ObservedAt time.Time
}

// SandboxStatus is what the runtime says of one sandbox.
type SandboxStatus struct {
	ID        string
	Attempt   uint32
	Ready     bool
	CreatedAt time.Time
	// HostNetwork says that the sandbox shares the host's network namespace.
	HostNetwork bool
	// HasNetwork says that the runtime reported a network block at all.
	HasNetwork bool
	IPs        []string
}

// ContainerStatus is what the runtime says of one container record. Times come from the host's clock; the zero time
// means "not yet".
type ContainerStatus struct {
	ID        string
	Name      string
	SandboxID string
	State     ContainerState
	// RestartCount is the number the container was created with (the annotation; the CRI attempt if it is missing).
	RestartCount int32
	// Hash is the definition hash the container was created with, "" if it is missing.
	Hash       string
	CreatedAt  time.Time
	StartedAt  time.Time
	FinishedAt time.Time
	ExitCode   int32
	Reason     string
	Message    string
	// Image is the image as the user named it, ImageID the runtime's reference (a repository digest if there is one).
	Image   string
	ImageID string
	// ImageRef is what another container of the same image can be made from, whatever its name points to by now.
	ImageRef string
	// LogPath is the absolute path of the log file on the host.
	LogPath string
	// TerminationMessageHostPath is where the file mounted at the termination message path is on the host; "" if none.
	TerminationMessageHostPath string
	// RecursiveReadOnly are the paths in the container at which mounts are read-only with all that is mounted below.
	RecursiveReadOnly []string
	Labels            map[string]string
	Annotations       map[string]string
	// HookOf names the container whose preStop hook this one runs after its end, "" for a container of the pod's spec.
	HookOf string
	// User is the effective user, nil if the runtime does not tell.
	User *LinuxUser
	// Resources are those in effect, nil if the runtime does not tell.
	Resources *LinuxResources
	// StopSignal is the API's name of the signal that stops it, "" if the runtime does not tell.
	StopSignal string
}

// MayRun says whether the container runs, for all the runtime can tell: one that it lost track of may.
func (c *ContainerStatus) MayRun() bool {
	return c.State == ContainerRunning || c.State == ContainerUnknown
}

// LinuxUser is the user a container's first process was started as.
type LinuxUser struct {
	UID                int64
	GID                int64
	SupplementalGroups []int64
}

// Newest returns the newest record of the named container, nil if there is none. The result is shared.
func (p *PodStatus) Newest(name string) *ContainerStatus {
	if p == nil {
		return nil
	}
	for i := range p.Containers {
		if p.Containers[i].Name == name {
			return &p.Containers[i]
		}
	}
	return nil
}

// Running returns the container records that are running, newest first. The records are shared.
func (p *PodStatus) Running() []*ContainerStatus {
	if p == nil {
		return nil
	}
	var out []*ContainerStatus
	for i := range p.Containers {
		if p.Containers[i].State == ContainerRunning {
			out = append(out, &p.Containers[i])
		}
	}
	return out
}

// ExitHook returns the record of the container that runs the preStop hook of the named one after its end, nil if there is
// none. The result is shared.
func (p *PodStatus) ExitHook(name string) *ContainerStatus {
	if p == nil {
		return nil
	}
	for i := range p.ExitHooks {
		if p.ExitHooks[i].HookOf == name {
			return &p.ExitHooks[i]
		}
	}
	return nil
}

// FirstIP returns the pod's primary address, "" if none is known.
func (p *PodStatus) FirstIP() string {
	if p == nil || len(p.IPs) == 0 {
		return ""
	}
	return p.IPs[0]
}

// ReadySandbox returns the newest sandbox if it is ready, else nil.
func (p *PodStatus) ReadySandbox() *SandboxStatus {
	if p == nil || len(p.Sandboxes) == 0 || !p.Sandboxes[0].Ready {
		return nil
	}
	return &p.Sandboxes[0]
}

// RuntimeName is the scheme of container ids in the API and of the node's runtime version.
const RuntimeName = "containerd"

// APIContainerID returns a container's id as it stands in the status of its pod.
func APIContainerID(id string) string { return RuntimeName + "://" + id }
