// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admission decides whether this node can run a pod as it is written. It is an allow-list: each field of a pod
// has a rule, and what no rule covers, be it a field that the Kubernetes API gained after this was written, refuses the
// pod. So nothing that a pod asks for is ever silently left out. A refused pod becomes Failed, with a message that names
// every field in the way and what to do about it.
//
// The rules (rules.go) are data: the table in docs/limits.md is made from them, and a test walks the types of the API
// and fails for a field without a rule.
//
// Beside the rules stand the kubelet's own predicates that need nothing but the pod, its neighbours and the node
// object: number of pods, requested resources, node affinity, taints and operating system.
//
// It must not know how a field is carried out, nor talk to anyone. A pod that was accepted is not asked about again;
// what changes in a running pod is only warned of (CheckUpdate), because killing it would be worse than not following.
//
// # Concurrency
//
// Pure functions. None keeps or changes its arguments.
package admission
