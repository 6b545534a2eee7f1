// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RestorePod makes a pod out of what was written on its containers when they were created, for a pod whose API object is
// gone: enough to terminate it with its own grace period and preStop hooks, never enough to run it. Its identity, grace
// periods, host network and containers (name, image, ports, preStop, termination message) are set; init containers
// cannot be told from others and are among them.
//
// The pod is good to use whatever the error says: it names the annotations that could not be read, which are left out.
func RestorePod(st *PodStatus) (*v1.Pod, error) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: st.UID, Name: st.Name, Namespace: st.Namespace}}
	if len(st.Sandboxes) > 0 {
		pod.Spec.HostNetwork = st.Sandboxes[0].HostNetwork
	}
	var errs []error
	seen := map[string]bool{}
	for i := range st.Containers {
		cs := &st.Containers[i]
		if seen[cs.Name] {
			continue
		}
		seen[cs.Name] = true
		c, err := restoreContainer(cs)
		errs = append(errs, err)
		pod.Spec.Containers = append(pod.Spec.Containers, c)

		grace, err := seconds(cs, AnnotationPodTerminationGrace)
		errs = append(errs, err)
		if pod.Spec.TerminationGracePeriodSeconds == nil {
			pod.Spec.TerminationGracePeriodSeconds = grace
		}
		grace, err = seconds(cs, AnnotationPodDeletionGrace)
		errs = append(errs, err)
		if pod.DeletionGracePeriodSeconds == nil {
			pod.DeletionGracePeriodSeconds = grace
		}
	}
	return pod, errors.Join(errs...)
}

func restoreContainer(cs *ContainerStatus) (v1.Container, error) {
	c := v1.Container{
		Name:                     cs.Name,
		Image:                    cs.Image,
		TerminationMessagePath:   cs.Annotations[AnnotationTerminationMessagePath],
		TerminationMessagePolicy: v1.TerminationMessagePolicy(cs.Annotations[AnnotationTerminationMessagePolicy]),
	}
	var preStop v1.LifecycleHandler
	found, preStopErr := decode(cs, AnnotationPreStopHandler, &preStop)
	if found {
		c.Lifecycle = &v1.Lifecycle{PreStop: &preStop}
	}
	var ports []v1.ContainerPort
	found, portsErr := decode(cs, AnnotationContainerPorts, &ports)
	if found {
		c.Ports = ports
	}
	return c, errors.Join(preStopErr, portsErr)
}

// decode reads a JSON annotation. It is not found if it is missing or broken.
func decode(cs *ContainerStatus, key string, into any) (found bool, err error) {
	text, ok := cs.Annotations[key]
	if !ok {
		return false, nil
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return false, fmt.Errorf("reading annotation %s of container %q: %w", key, cs.Name, err)
	}
	return true, nil
}

func seconds(cs *ContainerStatus, key string) (*int64, error) {
	text, ok := cs.Annotations[key]
	if !ok {
		return nil, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("reading annotation %s of container %q: %w", key, cs.Name, err)
	}
	if n < 0 {
		return nil, fmt.Errorf("reading annotation %s of container %q: %d is negative", key, cs.Name, n)
	}
	return &n, nil
}
