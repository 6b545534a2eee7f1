// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"cmp"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// SandboxFacts reads the status of a sandbox. IPs are what the runtime reports, primary first; none at all if one of
// them cannot be read.
func SandboxFacts(s *runtimeapi.PodSandboxStatus) SandboxStatus {
	return SandboxStatus{
		ID:          s.GetId(),
		Attempt:     s.GetMetadata().GetAttempt(),
		Ready:       s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY,
		CreatedAt:   hostTime(s.GetCreatedAt()),
		HostNetwork: s.GetLinux().GetNamespaces().GetOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE,
		HasNetwork:  s.GetNetwork() != nil,
		IPs:         sandboxIPs(s.GetNetwork()),
	}
}

// ContainerFacts reads the status of a container. SandboxID stays empty, because only the runtime's lists tell it.
func ContainerFacts(s *runtimeapi.ContainerStatus) ContainerStatus {
	return ContainerStatus{
		ID:                         s.GetId(),
		Name:                       s.GetMetadata().GetName(),
		State:                      StateOf(s.GetState()),
		RestartCount:               restartCount(s),
		Hash:                       s.GetAnnotations()[AnnotationHash],
		CreatedAt:                  hostTime(s.GetCreatedAt()),
		StartedAt:                  hostTime(s.GetStartedAt()),
		FinishedAt:                 hostTime(s.GetFinishedAt()),
		ExitCode:                   s.GetExitCode(),
		Reason:                     s.GetReason(),
		Message:                    s.GetMessage(),
		Image:                      cmp.Or(s.GetImage().GetUserSpecifiedImage(), s.GetImage().GetImage()),
		ImageID:                    cmp.Or(s.GetImageRef(), s.GetImageId()),
		ImageRef:                   cmp.Or(s.GetImageId(), s.GetImageRef()),
		LogPath:                    s.GetLogPath(),
		TerminationMessageHostPath: terminationMessageHostPath(s),
		RecursiveReadOnly:          recursiveReadOnly(s),
		Labels:                     maps.Clone(s.GetLabels()),
		Annotations:                maps.Clone(s.GetAnnotations()),
		HookOf:                     hookOf(s),
		User:                       linuxUser(s.GetUser().GetLinux()),
		Resources:                  reportedResources(s.GetResources().GetLinux()),
		StopSignal:                 signalName(s.GetStopSignal()),
	}
}

// StateOf translates the CRI's container state.
func StateOf(s runtimeapi.ContainerState) ContainerState {
	switch s {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		return ContainerCreated
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return ContainerRunning
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		return ContainerExited
	default:
		return ContainerUnknown
	}
}

// AssemblePodStatus makes one observation of a pod out of its parts. It sorts them, and takes the pod's IPs from the
// newest sandbox if that is ready. The slices become part of the result.
func AssemblePodStatus(
	uid types.UID, name, namespace string, sandboxes []SandboxStatus, containers []ContainerStatus, observed time.Time,
) *PodStatus {
	slices.SortFunc(sandboxes, func(a, b SandboxStatus) int {
		return cmp.Or(cmp.Compare(b.Attempt, a.Attempt), b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
	})
	age := make(map[string]time.Time, len(containers))
	for i := range containers {
		age[containers[i].ID] = effectiveCreation(&containers[i], containers)
	}
	slices.SortFunc(containers, func(a, b ContainerStatus) int {
		return cmp.Or(age[b.ID].Compare(age[a.ID]), cmp.Compare(b.RestartCount, a.RestartCount), cmp.Compare(b.ID, a.ID))
	})
	status := &PodStatus{UID: uid, Name: name, Namespace: namespace, Sandboxes: sandboxes, ObservedAt: observed}
	status.Containers, status.ExitHooks = partition(containers)
	if ready := status.ReadySandbox(); ready != nil {
		status.IPs = slices.Clone(ready.IPs)
	}
	return status
}

// partition puts aside the containers that run hooks.
func partition(all []ContainerStatus) (containers, hooks []ContainerStatus) {
	containers = slices.DeleteFunc(slices.Clone(all), func(c ContainerStatus) bool { return c.HookOf != "" })
	if len(containers) == len(all) {
		return all, nil
	}
	return containers, slices.DeleteFunc(all, func(c ContainerStatus) bool { return c.HookOf == "" })
}

// effectiveCreation returns when the container was created, which is never before its predecessors, that have lower restart
// counts: the host's clock may have jumped back, and the runtime does not tell it of a container that it could not load.
func effectiveCreation(c *ContainerStatus, all []ContainerStatus) time.Time {
	created := c.CreatedAt
	for i := range all {
		other := &all[i]
		if other.Name == c.Name && other.RestartCount < c.RestartCount && !other.CreatedAt.Before(created) {
			created = other.CreatedAt.Add(time.Nanosecond)
		}
	}
	return created
}

// hostTime converts the CRI's nanoseconds. Zero means "not yet" and becomes the zero time.
func hostTime(nanoseconds int64) time.Time {
	if nanoseconds == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds).UTC()
}

func sandboxIPs(n *runtimeapi.PodSandboxNetworkStatus) []string {
	if n.GetIp() == "" {
		return nil
	}
	addresses := []string{n.GetIp()}
	for _, ip := range n.GetAdditionalIps() {
		addresses = append(addresses, ip.GetIp())
	}
	for i, address := range addresses {
		ip, err := netip.ParseAddr(address)
		if err != nil || ip.Zone() != "" {
			return nil
		}
		addresses[i] = ip.Unmap().String()
	}
	return addresses
}

func restartCount(s *runtimeapi.ContainerStatus) int32 {
	n, err := strconv.ParseInt(s.GetAnnotations()[AnnotationRestartCount], 10, 32)
	if err != nil || n < 0 {
		return int32(min(s.GetMetadata().GetAttempt(), 1<<31-1))
	}
	return int32(n)
}

// hookOf returns which container's hook this one runs, "" if it is an ordinary one.
func hookOf(s *runtimeapi.ContainerStatus) string {
	if s.GetLabels()[LabelContainerKind] != KindExitHook {
		return ""
	}
	return cmp.Or(s.GetAnnotations()[AnnotationHookOf], s.GetMetadata().GetName())
}

func terminationMessageHostPath(s *runtimeapi.ContainerStatus) string {
	inside := s.GetAnnotations()[AnnotationTerminationMessagePath]
	if inside == "" {
		return ""
	}
	for _, m := range s.GetMounts() {
		if path.Clean(m.GetContainerPath()) == path.Clean(inside) {
			return m.GetHostPath()
		}
	}
	return ""
}

func recursiveReadOnly(s *runtimeapi.ContainerStatus) []string {
	var out []string
	for _, m := range s.GetMounts() {
		if m.GetRecursiveReadOnly() {
			out = append(out, path.Clean(m.GetContainerPath()))
		}
	}
	return out
}

func linuxUser(u *runtimeapi.LinuxContainerUser) *LinuxUser {
	if u == nil {
		return nil
	}
	return &LinuxUser{UID: u.GetUid(), GID: u.GetGid(), SupplementalGroups: slices.Clone(u.GetSupplementalGroups())}
}
