// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package image makes sure that the image of a container is on the machine before the container is created: pull
// policies, default tags, back-off of failing pulls, and the events and waiting reasons that tell of it, all to the
// letter as the kubelet does.
//
// It must not know where images come from or how they are stored; the runtime does. Credentials of pods, image volumes
// and removal of unused images are not its business yet.
//
// Two things differ from the kubelet's defaults. Pulls of different pods run in parallel, so that one registry that
// hangs does not hold up the rest of the machine, and a pull ends as soon as its pod is deleted.
//
// # Concurrency
//
// A Manager may be used by any number of goroutines. It owns none: a pull runs in the goroutine that asked for it, and
// stops when its context ends.
package image
