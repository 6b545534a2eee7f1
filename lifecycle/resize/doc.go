// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resize changes CPU and memory of containers that run. It keeps three views of each pod apart: what is desired
// (the spec in the API), what is allocated (what the node agreed to, which the rest of the engine works with in place of the
// spec) and what is actuated (what the runtime was told last).
//
//	spec changes ─► fits on the node? ─no─► PodResizePending, asked again later
//	                      │ yes
//	                      ▼
//	                 allocated, PodResizeInProgress ─► update or restart of containers ─► actuated = allocated: done
//
// The kubelet keeps the last two in files. Here the status in the API is the file: allocatedResources and resources of
// each container status, and of the pod's where the pod asks for something as a whole, from which both are recovered after a
// restart. What containers leave open is limited by their pod, so that a change of the pod's own limits changes them, too.
//
// It must not know how a container is updated or restarted, who changes the control group of a pod, pod workers, or how a
// status reaches the API.
//
// # Concurrency
//
// A Manager may be used by any number of goroutines; no method blocks. All other functions are pure. Pods are shared and
// never changed: a pod with other resources is a copy.
package resize
