// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podsource watches the pods of one node and reports how what should run changed: whole snapshots are compared
// by pod UID, as a kubelet does, so that a watch that was cut, a list that was read anew and a pod that was deleted
// and made again under its old name all come out right.
//
// It must not know what becomes of a pod, and it never writes to the API. It never takes a failed list for an empty one:
// nothing is reported as removed, nor the source as synced, before a list or a watch said so. If a list lacks several pods
// at once, each of them is asked for before it is reported as removed.
//
// # Concurrency
//
// Source.Run owns three goroutines, the reflector that fills the snapshot, the comparison that delivers it and the one that
// asks for pods in doubt, and joins them. A slow consumer delays nobody: changes meanwhile coalesce in the snapshot, the newest state of each pod is
// compared when the consumer is ready again, and no last state is lost. Delivered pods are shared and must not be
// changed. Live may be called by any number of goroutines.
package podsource
