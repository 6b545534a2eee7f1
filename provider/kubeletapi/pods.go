// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"encoding/json"
	"fmt"
	"net/http"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tombolo-dev/tombolo/cri"
)

// servePods answers with the pods of the node as the API has them.
func (s *Server) servePods(w http.ResponseWriter, _ *http.Request) {
	pods := s.o.Pods.Pods()
	items := make([]v1.Pod, 0, len(pods))
	for _, pod := range pods {
		items = append(items, *pod)
	}
	s.writePods(w, items)
}

// serveRunningPods answers with the pods that have a running container, as the runtime has them: names, UIDs and images
// and nothing else.
func (s *Server) serveRunningPods(w http.ResponseWriter, _ *http.Request) {
	items := []v1.Pod{}
	for _, uid := range s.o.Observed() {
		status, err := s.o.Pods.RuntimeStatus(uid)
		if err != nil {
			writeText(w, http.StatusInternalServerError, fmt.Sprintf("observing pod %s: %v", uid, err))
			return
		}
		if running := status.Running(); len(running) > 0 {
			items = append(items, runningPod(status, running))
		}
	}
	s.writePods(w, items)
}

func runningPod(status *cri.PodStatus, running []*cri.ContainerStatus) v1.Pod {
	pod := v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: status.Name, Namespace: status.Namespace, UID: status.UID}}
	for _, c := range running {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: c.Name, Image: c.Image})
	}
	return pod
}

func (s *Server) writePods(w http.ResponseWriter, items []v1.Pod) {
	data, err := json.Marshal(v1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: items})
	if err != nil {
		writeText(w, http.StatusInternalServerError, fmt.Sprintf("encoding the list of pods: %v", err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(data); err != nil {
		s.log.Debug("The list of pods was not read to its end", "err", err)
	}
}
