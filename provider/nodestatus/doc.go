// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodestatus keeps the Node object true: it describes the machine behind the link, says when the link to it is
// down, and drives virtual-kubelet's node.NodeController, which registers the node, patches its status and renews its
// lease.
//
// While the link is down the process itself is alive, so the lease goes on being renewed and the node says of itself
// that it is not ready, with the reason HostLinkDown and the address of the host. The node is never deleted nor
// cordoned. It must not know what runs on the node.
//
// # Concurrency
//
// Controller.Run owns the watch of the Node object, virtual-kubelet's controller and the loop that compares what is
// with what the API says, and joins them. Only that loop computes nodes. One goroutine may outlive Run by the time an
// API server takes to answer: virtual-kubelet's callback knows no context, so a hand-over that nobody takes any more
// is left behind.
package nodestatus
