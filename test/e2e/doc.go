// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests Tombolo from outside, as its users see it: a real control plane, real containerds on "remote hosts"
// (package testbed), the tombolo binary as `tombolo host` on each of them and as `tombolo node` beside the control plane,
// and kubectl.
//
// One cluster serves all tests. Tests that only use a node share the node "calm" and run in parallel; tests that kill,
// cut and restart have the nodes "storm" and "squall" to themselves, one after the other on each; "shore" runs its host part
// in-process (--host unix://). TOMBOLO_E2E_LINK chooses the kind of link of the first three, tls unless it is set. TestFirstHour, which
// follows the documents word by word, has a cluster as they presume it.
//
// The tests must not know anything of the inside of the product: they look at the API, at kubectl's output, at CRI on the
// host, at files that pods write into hostPath volumes, at /metrics and at log lines made for people.
//
// # Concurrency
//
// TestMain owns the cluster and the processes of all sites. A site's processes may be restarted only by the test that
// owns the site.
package e2e
