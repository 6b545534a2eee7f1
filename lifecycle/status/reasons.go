// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

// Reasons and messages are the kubelet's, to the letter: scripts and dashboards match on them.
const (
	// Waiting reasons of a container of which nothing else is known.
	reasonContainerCreating = "ContainerCreating"
	reasonPodInitializing   = "PodInitializing"

	// Reason, as waiting and as end, of a container that was removed because all containers of its pod are restarted.
	reasonRestartingAll  = "RestartingAllContainers"
	messageRestartingAll = "The container is removed because RestartAllContainers in place"

	// Reasons of terminated containers that are not the runtime's.
	reasonStatusUnknown = "ContainerStatusUnknown"
	reasonCompleted     = "Completed"

	messageNotFoundTerminated = "The container could not be located when the pod was terminated"
	messageNotFoundDeleted    = "The container could not be located when the pod was deleted.  The container used to be Running"
	messageInitInferred       = "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally"

	// Reasons of conditions.
	reasonSandboxNotReady   = "PodSandboxNotReady"
	reasonUnknownContainers = "UnknownContainerStatuses"
	reasonNotInitialized    = "ContainersNotInitialized"
	reasonNotReady          = "ContainersNotReady"
	reasonGatesNotReady     = "ReadinessGatesNotReady"
	reasonRestartAllStarted = "RestartAllContainersStarted"
	messageRestartAll       = "container exited with restart policy rule"
	reasonPodCompleted      = "PodCompleted"
	reasonPodFailed         = "PodFailed"

	// ReasonDeadlineExceeded is the reason of a pod that outlived its activeDeadlineSeconds, and of the event that says so.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	// MessageDeadlineExceeded is the message of both.
	MessageDeadlineExceeded = "Pod was active on the node longer than the specified deadline"

	messageRejectedPrefix = "Pod was rejected: "
)

// exitCodeUnknown is reported for a container whose end nobody saw: that of a process ended by SIGKILL.
const exitCodeUnknown = 137

// What containerd reports for a container whose task was gone when containerd came back: its own guess.
const (
	runtimeReasonUnknown   = "Unknown"
	runtimeExitCodeUnknown = 255
)
