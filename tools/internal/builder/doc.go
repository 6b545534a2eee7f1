// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package builder builds the real parts that tests, demos and linters run: a Kubernetes control plane, etcd, containerd,
// runc, CNI plugins and command line tools, all at the versions pinned under tools/parts.
//
// Each folder of tools/parts is a Go module of its own with one upstream project in it. One module for all of them would
// select one version of every shared dependency, and so build programs that no upstream ever shipped or tested.
//
// Binaries go to a cache folder outside the repository:
//
//	<cache>/parts/<name>/<version>-<key>/<name>   one binary; its presence is the stamp
//	<cache>/bin/<set key>/<name>                  links to the binaries of one state of the pins, to put on a PATH
//	<cache>/logs/<name>.log                       output of the last build
//	<cache>/locks/<name>                          held while a binary is built
//
// The key covers everything that goes into the binary: go.mod, go.sum, package, flags, tags and the Go version. A build
// writes to a temporary name and renames, so an interrupted build leaves nothing that looks finished; what it had
// compiled so far is in Go's own build cache, where the next run finds it.
//
// # Concurrency
//
// Builder has no shared mutable state; any number of processes may build into one cache folder at once, since a file lock
// per part makes the second one wait for the first and then find its result.
package builder
