// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"net/http"

	v1 "k8s.io/api/core/v1"
)

// logSource is the run of a container whose log is wanted.
type logSource struct {
	containerID  string
	restartCount int32
}

// selectLog chooses the run of a container whose log answers a request. The error tells the user why there is none.
func selectLog(podName string, status *v1.PodStatus, container string, previous bool) (logSource, error) {
	c := findContainerStatus(status, container)
	if c == nil {
		return logSource{}, noLog("container %q in pod %q is not available", container, podName)
	}
	id, err := chooseRun(podName, c, previous)
	if err != nil {
		return logSource{}, err
	}
	source := logSource{containerID: bareID(id), restartCount: c.RestartCount}
	if id != c.ContainerID {
		// The count is that of the newest run.
		source.restartCount = max(0, c.RestartCount-1)
	}
	return source, nil
}

func chooseRun(podName string, c *v1.ContainerStatus, previous bool) (id string, err error) {
	last := ""
	if c.LastTerminationState.Terminated != nil {
		last = c.LastTerminationState.Terminated.ContainerID
	}
	switch state := c.State; {
	case previous && last == "":
		return "", noLog("previous terminated container %q in pod %q not found", c.Name, podName)
	case previous:
		return last, nil
	case state.Running != nil:
		return c.ContainerID, nil
	case state.Terminated != nil && state.Terminated.ContainerID != "":
		return state.Terminated.ContainerID, nil
	case last != "":
		return last, nil
	case state.Terminated != nil, c.LastTerminationState.Terminated != nil:
		return "", noLog("container %q in pod %q is terminated", c.Name, podName)
	case state.Waiting == nil:
		return "", noLog("container %q in pod %q is waiting to start - no logs yet", c.Name, podName)
	default:
		return "", noLog("container %q in pod %q is waiting to start: %s", c.Name, podName, waitingText(state.Waiting.Reason))
	}
}

// waitingText words the commonest reasons as the kubelet does.
func waitingText(reason string) string {
	switch reason {
	case "ErrImagePull":
		return "image can't be pulled"
	case "ImagePullBackOff":
		return "trying and failing to pull image"
	default:
		return reason
	}
}

func noLog(format string, args ...any) error {
	return statusErrorf(http.StatusBadRequest, format, args...)
}

func findContainerStatus(status *v1.PodStatus, name string) *v1.ContainerStatus {
	for _, list := range [][]v1.ContainerStatus{
		status.ContainerStatuses, status.InitContainerStatuses, status.EphemeralContainerStatuses,
	} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}
