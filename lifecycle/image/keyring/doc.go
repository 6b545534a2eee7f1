// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package keyring finds the credentials for an image among the pull secrets of a pod: it reads the two kinds of docker
// configuration that secrets hold, and compares registries with images as the kubelet does.
//
// It must not know where secrets come from, nor pull anything. What it keeps are passwords: a Credential prints and logs as
// the name of its secret, and no error quotes what it could not read.
//
// # Concurrency
//
// Pure functions and values that are not changed after they were made.
package keyring
