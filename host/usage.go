// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import "context"

// PodUsage is what a pod takes of the host's disks, in bytes. What is in memory does not count.
type PodUsage struct {
	// Volumes are its emptyDirs and ConfigMaps, by name.
	Volumes map[string]int64
	// Containers are by name.
	Containers map[string]ContainerUsage
	// Other are its other files, such as the hosts file.
	Other int64
}

// ContainerUsage is what a container takes of the host's disks, in bytes.
type ContainerUsage struct {
	Logs int64
	// Layer is what it wrote to its own file system, as the runtime measured it last. Elsewhere says that this is on another one
	// of the host than the directories of pods.
	Layer     int64
	Elsewhere bool
}

// UsageReader measures what pods take of the host's disks.
type UsageReader interface {
	// PodUsage looks at every file of the pod, which takes its time and ends early, with an error, when ctx ends. With so many
	// files that they are not counted within a minute it returns what was counted until then: the pod takes that or more. The layers of
	// its containers are asked of the runtime only if they are wanted. A pod that has nothing takes nothing.
	PodUsage(ctx context.Context, pod Pod, layers bool) (*PodUsage, error)
}
