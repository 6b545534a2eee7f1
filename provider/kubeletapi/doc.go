// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubeletapi serves the HTTP API of a kubelet, the one that `kubectl logs`, `exec`, `attach`, `cp` and
// `port-forward`, the API server's node proxy and monitoring agents talk to on port 10250.
//
// Every request is authenticated (client certificate or TokenReview) and authorised (SubjectAccessReview) by the cluster.
// Logs are read through the host link. Interactive streams are not terminated here: the client's upgrade request is
// passed on to the runtime's own streaming server and the bytes are copied, so that protocols, terminal sizes, end of
// input and exit codes are the runtime's own.
//
// It must not know how the host is reached (package link), how pods are run (package lifecycle, of which it sees a read
// only view), and it never changes anything in the cluster.
//
// virtual-kubelet's handlers are not used for this: they end the streams themselves with their own copy of the server
// side, cut idle ones after 30 seconds, and cannot tell `--tail=0` from no tail at all.
//
// # Concurrency
//
// A Server handles any number of requests at once. Each request owns the goroutines it starts and joins them before it
// returns; Run ends all requests when its context ends and returns when the last one is gone. Objects that come from a
// PodView are shared and are never changed.
package kubeletapi
