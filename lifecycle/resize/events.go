// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package resize

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
)

// The kubelet's reasons of events about a resize.
const (
	eventDeferred   = "ResizeDeferred"
	eventInfeasible = "ResizeInfeasible"
	eventStarted    = "ResizeStarted"
	eventCompleted  = "ResizeCompleted"
	eventError      = "ResizeError"
)

// summary is the machine-readable part of an event's message, in the kubelet's form.
type summary struct {
	InitContainers []containerSummary `json:"initContainers,omitempty"`
	Containers     []containerSummary `json:"containers,omitempty"`
	Generation     int64              `json:"generation"`
	Error          string             `json:"error,omitempty"`
}

type containerSummary struct {
	Name      string                  `json:"name"`
	Resources v1.ResourceRequirements `json:"resources"`
}

// message joins what happened and the resources it is about.
func message(what string, pod *v1.Pod, generation int64, failure string) string {
	s := summary{Generation: generation, Error: failure}
	for i := range pod.Spec.InitContainers {
		s.InitContainers = append(s.InitContainers, summaryOf(&pod.Spec.InitContainers[i]))
	}
	for i := range pod.Spec.Containers {
		s.Containers = append(s.Containers, summaryOf(&pod.Spec.Containers[i]))
	}
	text, err := json.Marshal(s)
	if err != nil {
		return what
	}
	return what + ": " + string(text)
}

func summaryOf(c *v1.Container) containerSummary {
	return containerSummary{Name: c.Name, Resources: c.Resources}
}
