// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podenv turns the environment, command and arguments of a container's definition into what the runtime gets:
// variables from ConfigMaps, Secrets, the pod itself and the node, those that announce Services, and $(NAME) references
// replaced the way the Kubernetes API documents it.
//
// It is asked when a container is made: whatever changes later is seen by the next container. It must not know how objects
// are read, nor what becomes of an error. Values may be secret; none is logged or part of an error.
//
// # Concurrency
//
// There is no state. Arguments are neither kept nor changed; Objects are asked for one at a time.
package podenv
