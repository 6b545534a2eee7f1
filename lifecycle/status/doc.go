// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status says what is told of a pod and brings it to the API: Generate makes a PodStatus of a pod and of one
// observation of it in the runtime, Manager keeps the newest status of each pod and writes it until it is accepted. At
// the very end of a pod's life the Manager also deletes the API object.
//
// It must not know how a container is started or stopped, nor what kind of client is behind its Sink. It never decides
// that a pod ends: it reports what it is given, with three exceptions that keep what was reported true. A terminal
// phase is final, a restart count never falls, and an exit code that was known is never replaced by a guess.
//
// # Concurrency
//
// Generate and the other functions are pure: they take time as an argument and neither keep nor change what they are
// given. A Manager may be used by any number of goroutines; none of its methods but Run blocks, and none waits for the
// API. Run owns all goroutines of the Manager and joins them before it returns. At most one call to the API is under
// way for one pod, and a call that hangs for one pod does not delay another.
package status
