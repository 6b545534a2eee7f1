// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package host says what must happen on the machine itself because CRI has no words for it: facts of the machine, pod
// directories, log files, hooks that must run exactly once, and byte streams to the runtime's streaming server and to
// pods. The interfaces stand here because three sides share them: package host/local does the work on the machine
// the process runs on, host/remote carries it over gRPC, and the lifecycle engine asks for it.
//
// It must not know the Kubernetes API beyond its identifiers, and it never decides anything about a pod.
//
// # Concurrency
//
// Every implementation may be used by any number of goroutines. Every method is idempotent: after an answer was lost,
// the same call again is right.
package host
