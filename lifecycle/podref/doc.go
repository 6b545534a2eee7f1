// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podref makes the references under which events of pods and containers are recorded. Events of a container
// carry a field path such as "spec.containers{web}", by which `kubectl describe` and dashboards tell them apart.
//
// It must not know what is recorded.
//
// # Concurrency
//
// Every function is pure. None keeps or changes its arguments.
package podref
