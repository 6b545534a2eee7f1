// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package staticpods makes pods run that no API server knows of: their manifests come from a directory or from a URL. For
// each it keeps a mirror pod in the API, through which the pod can be seen and its status read. A Mux merges them with the
// pods of the API into one pod source of the lifecycle engine.
//
// A static pod is what its manifest says: a changed manifest is another pod, with another UID. It is never deleted through
// the API; deleting its mirror pod only makes a new one. What cannot be read is no proof of deletion: a directory or URL
// that fails changes nothing, and a manifest that became invalid leaves the pod of its last valid version running.
//
// It must not know how a pod is run.
//
// # Concurrency
//
// Mux.Run owns all goroutines and joins them. Sink may be used by any number of goroutines. Delivered pods are shared and
// must not be changed.
package staticpods
