// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package provider is the virtual-kubelet plugin: it joins the Kubernetes API on one side and the lifecycle engine on
// the other into one node. Its sub-packages are the parts: podsource (what should run), statussink (how pods are
// reported), objects (what pods refer to), nodestatus (the Node object), machine (what is known of the host), events,
// kubeletapi (the kubelet's HTTP API), hostconn (the way to the host) and check (what is in the way of a node).
//
// Provider implements virtual-kubelet's node.PodLifecycleHandler, but it is our own pod source that drives it, not
// virtual-kubelet's PodController: that one tells pods apart by name and deletes their objects by a timer. Run
// assembles everything.
//
// It must not know flags, nor how a pod is run.
//
// # Concurrency
//
// Run owns every part and joins all of them before it returns. A Provider may be used by any number of goroutines; pods
// it is given are shared and must not be changed, pods it returns are copies.
package provider
