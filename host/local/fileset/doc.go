// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fileset keeps the files of a directory in step with a wanted set in such a way that a reader sees either all of
// the old or all of the new content. It uses the layout that programs which watch such volumes know from the kubelet:
//
//	..2026_01_02_15_04_05.1234567890/   a whole version of the files
//	..data -> ..2026_01_02_15_04_05.1234567890
//	name -> ..data/name                 for the first element of each path
//
// A version is written completely before ..data is renamed over, which is the one moment at which the content changes. A
// process that dies at any other moment leaves garbage at worst, and the next call removes it.
//
// It must not know what the files are for, and it neither mounts anything nor chooses the directory: everything happens
// below the os.Root that it is given.
//
// # Concurrency
//
// A Writer may be used by any number of goroutines, but calls for the same directory must come one after the other.
package fileset
