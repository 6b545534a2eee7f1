// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podenv turns the environment, command and arguments of a container's definition into what the runtime gets:
// literal variables in order of definition, and $(NAME) references replaced the way the Kubernetes API documents it.
//
// It must not know where values other than literals come from: a variable that needs another object is an error here,
// and refused long before by package admission. Variables that announce Services are not made yet.
//
// # Concurrency
//
// Pure functions; arguments are neither kept nor changed.
package podenv
