// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package debian installs system packages that are missing, by their Debian names.
//
// Whether a package is present is asked of the files it brings and not of dpkg: that costs no process, and it accepts the
// same program from another source or distribution. Only the installing needs Debian and root.
//
// # Concurrency
//
// Ensure may be called by several processes at once; apt-get itself waits for the lock of another one.
package debian
