// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Command conformance runs Kubernetes' own end-to-end suite against Tombolo and against the real kubelet, each on a control
// plane and a host of its own with equal settings, and prints in what they differ.
//
// A test that passes with the kubelet and fails with Tombolo counts against Tombolo, unless a pod of the test was refused for
// a field that Tombolo does not support yet; the field is then named. The results of the kubelet are kept in the cache of the
// parts, since they change only with the versions that are compared.
//
// With -quick only the tests listed in quick.txt run, with Tombolo alone, and each has to pass.
//
// It must not know anything of how Tombolo works but the reason and the message of a refusal.
//
// # Concurrency
//
// One side runs at a time. While it does, one goroutine watches pods and one the output of the suite; both end with it.
package main
