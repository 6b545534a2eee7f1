// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package testbed runs a real Kubernetes control plane and real containerd hosts on one Linux machine, for tests and demos.
//
// A [Cluster] is etcd, kube-apiserver, kube-controller-manager and kube-scheduler on free ports, with certificates of its own,
// behind a bridge that only this machine sees. A [Host] stands for a remote machine that runs nothing but containerd:
//
//	this machine                                host edge-1
//	┌──────────────────────────────┐            ┌───────────────────────────────┐
//	│ etcd, kube-apiserver, …      │            │ containerd, CNI bridge cni0   │
//	│ tombolo node                 │            │ tombolo host                  │
//	│   bridge tb-<id> 10.x.y.1/22 ├────veth────┤ eth0 10.x.y.2/22              │
//	└──────────────────────────────┘            │ pods 10.x.(y+4).0/22          │
//	                                            └───────────────────────────────┘
//
// A host is a set of network, mount, cgroup and UTS namespaces held by one sleeping process. It has its own /run, its own
// changes to /etc and /var, and a cgroup that looks like the root from inside. So two hosts, or two testbeds, may use the
// same paths, and what a program does to its host can be seen in one place. A [Port] is a place beside them for a machine of
// another kind.
//
// # Leaving nothing behind
//
// What a host makes (mounts, CNI bridge, iptables rules, pod network namespaces, containers) lives in its namespaces and
// cgroup and goes with them: killing what is in the cgroup and removing it is a complete clean-up. What stays is named
// after the run's identifier, which the state folder holds before anything is made: the bridge tb-<id>, the cgroup
// tombolo-testbed-<id>, and processes with TOMBOLO_TESTBED=<id> in their environment. So [Clean] needs nothing but the state
// folder, also after the process that made it was killed. A process is only ever killed if it is in that cgroup or carries
// that mark.
//
// # Concurrency
//
// The methods of Cluster, Host and Process may be called by several goroutines. Several testbeds may run at once, also of
// different processes: address blocks are chosen under a lock of the machine.
package testbed
