// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package settings gives the flags of a command their values from a file and from the environment, and says where each value
// came from.
//
// The flags of a command are the one list of its settings. The key of a setting in a file and its environment variable follow
// from the flag's name, its form from the flag's type, so that nothing can be forgotten: --host-ca-file is hostCAFile in a file and
// TOMBOLO_HOST_CA_FILE in the environment. A flag on the command line wins over the environment, that over a file, and that over
// the default.
//
// It must not know which settings there are or what they mean: whoever declares a flag checks its value.
//
// # Concurrency
//
// Nothing here starts a goroutine. A File does not change once it is parsed; a flag set belongs to its caller.
package settings
