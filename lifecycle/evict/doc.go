// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package evict ends pods that take more of the host's disk than they may: than the sizeLimit of an emptyDir, or than the
// limits of ephemeral-storage of their containers. What a pod takes is measured on the host; Judge, which is pure, decides in the
// kubelet's order and with its messages.
//
// It must not know how a pod is ended, or what its status is: whoever drives it is told which pod is to go and why. A pod that cannot be
// measured is never evicted: a lost link says nothing about it.
//
// # Concurrency
//
// Run owns every goroutine of a Manager and joins them before it returns. Each pod is measured in a goroutine of its own, a few at
// the same time, so that one with very many files delays no other.
package evict
