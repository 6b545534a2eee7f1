// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package image makes sure that the image of a container is on the machine before the container is created: pull
// policies, default tags, back-off of failing pulls, and the events and waiting reasons that tell of it, all to the
// letter as the kubelet does.
//
// A pull is made with the credentials of the pod's pull secrets, one after the other. An image that was pulled so is for
// those who have the credentials: which secrets a registry accepted is kept on the host, so that it is known to the next
// process as well, and a pod without them has to ask the registry although the image is there. No password leaves the
// process but to the runtime, and none is logged.
//
// It must not know where images come from or how they are stored; the runtime does. Image volumes and removal of unused
// images are not its business.
//
// An image that was on the machine under its name before, or was pulled without credentials, is for everyone, also when the
// same content is pulled with credentials under another name.
//
// Three things differ from the kubelet's defaults. Pulls of different pods run in parallel, so that one registry that
// hangs does not hold up the rest of the machine, a pull ends as soon as its pod is deleted, and one that takes minutes is
// told of by events while it does.
//
// # Concurrency
//
// A Manager may be used by any number of goroutines. A pull runs in the goroutine that asked for it, and stops when its
// context ends. Beside it runs one goroutine that tells of its progress and ends with it.
package image
