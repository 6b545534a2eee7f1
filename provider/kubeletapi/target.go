// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"fmt"
	"net/http"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/cri"
)

// streamPod returns the pod that a stream request names. A UID in the path must be that of the pod: a client that means
// an earlier pod of the same name must not end up in its successor.
func (s *Server) streamPod(r *http.Request) (*v1.Pod, error) {
	pod, ok := s.o.Pods.Pod(r.PathValue("namespace"), r.PathValue("pod"))
	if !ok {
		return nil, statusErrorf(http.StatusNotFound, "pod does not exist")
	}
	if uid := types.UID(r.PathValue("uid")); uid != "" && uid != pod.UID {
		return nil, statusErrorf(http.StatusNotFound, "pod not found: %s/%s has the UID %s", pod.Namespace, pod.Name, pod.UID)
	}
	return pod, nil
}

// streamContainer returns the container that a stream request names.
func (s *Server) streamContainer(r *http.Request) (*v1.Pod, *v1.Container, error) {
	pod, err := s.streamPod(r)
	if err != nil {
		return nil, nil, err
	}
	container, ok := findContainer(pod, r.PathValue("container"))
	if !ok {
		return nil, nil, errNoContainer(pod, r.PathValue("container"))
	}
	return pod, container, nil
}

func errNoContainer(pod *v1.Pod, name string) error {
	return statusErrorf(http.StatusNotFound, "container %q not found in pod %q", name, pod.Name)
}

// runningContainer returns the id of the run of a container that is running now, "" if there is none. What the runtime
// showed last decides; the status in the API serves while nothing was observed, as after a restart of this process.
func (s *Server) runningContainer(pod *v1.Pod, name string) (string, error) {
	observed, err := s.o.Pods.RuntimeStatus(pod.UID)
	if err == nil {
		if newest := observed.Newest(name); newest != nil {
			if newest.State != cri.ContainerRunning {
				return "", nil
			}
			return newest.ID, nil
		}
	}
	status := s.podStatus(pod)
	if c := findContainerStatus(&status, name); c != nil && c.State.Running != nil {
		return bareID(c.ContainerID), nil
	}
	if err != nil {
		return "", fmt.Errorf("looking for container %q of pod %q in the runtime: %w", name, pod.Name, err)
	}
	return "", nil
}

// podStatus returns the newest status of the pod there is.
func (s *Server) podStatus(pod *v1.Pod) v1.PodStatus {
	if status, ok := s.o.Pods.Status(pod.UID); ok {
		return status
	}
	return pod.Status
}

// findContainer returns the container of that name from the pod's spec, whatever its kind.
func findContainer(pod *v1.Pod, name string) (*v1.Container, bool) {
	for _, list := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i], true
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if common := &pod.Spec.EphemeralContainers[i].EphemeralContainerCommon; common.Name == name {
			return (*v1.Container)(common), true
		}
	}
	return nil, false
}

// bareID strips the name of the runtime from a container id of the API.
func bareID(id string) string {
	if _, bare, ok := strings.Cut(id, "://"); ok {
		return bare
	}
	return id
}
