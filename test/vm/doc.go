// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package vm boots a virtual machine that is a host of its own: another kernel, cgroup v2, systemd as the first process and as
// the one that makes control groups, AppArmor. The hosts of package testbed share all of that with the machine that tests run
// on. The machine is on the network of a testbed's hosts and otherwise has what they have, containerd, runc and CNI plugins
// from the parts, and it gets the rest in the way of the documentation.
//
//	this machine                                 QEMU, a processor in software
//	┌──────────────────────────────┐             ┌──────────────────────────────┐
//	│ control plane, tombolo node  │             │ Linux 6.1, systemd           │
//	│   bridge tb-<id>             ├─────tap─────┤ eth0, sshd                   │
//	└──────────────────────────────┘             │ containerd, tombolo host     │
//	                                             └──────────────────────────────┘
//
// Its disk is made once of Debian's packages and kept in the cache folder:
//
//	<cache>/vm/<key>/disk.ext4   the userland
//	<cache>/vm/<key>/vmlinuz     Debian's kernel for clouds, booted directly
//	<cache>/vm/<key>/initrd      loads drivers, puts the files of this run onto the disk and hands over to systemd
//	<cache>/logs/vm-image.log    what making them has printed
//
// The key covers the scripts and the list of packages, not their versions: remove the folder to get newer ones. A machine
// writes to a temporary file in front of the disk, so that what is cached stays as it was made.
//
// Nothing is left behind: the process of the machine, its network device and the files of the run belong to the testbed and go
// with it, also after a crash. Its console is <LogDir>/<name>-console.log.
//
// # Concurrency
//
// The methods of a Machine may be called by several goroutines. Several processes may make the disk at once: one of them wins.
package vm
