// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package volume makes the volumes of a pod ready on the machine, keeps their contents up to date, and says which mounts a
// container gets. It covers emptyDir, hostPath, configMap, secret, downwardAPI, projected, and claims that are bound to
// what a Plugin can mount; other kinds are refused by package admission before they come here.
//
// It must not touch a file itself: the host does. It must not know when a pod begins or ends either; whoever drives it
// calls Prepare before containers are made, Refresh when something changed that a volume shows, and Cleanup after the last
// container has stopped. Contents are neither kept nor logged; a digest tells whether the host has them.
//
// # Concurrency
//
// A Manager may be used by any number of goroutines and owns none. Calls for one pod are expected one after the other,
// from its pod worker; calls for different pods do not wait for each other.
package volume
