// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle is the engine that makes pods happen on a machine: what a kubelet does between the API and the
// runtime. It joins its sub-packages, each of one documented part:
//
//	podworker    one goroutine and one state machine per pod UID      admission  which pods are taken
//	pleg         what runs                                            resize     resources of what runs
//	podsync      from observation to actions                          image, volume, podenv
//	termination  how containers end                                   gc         what is left of the dead
//	exithook     hooks after a natural end                            podrules   questions that several ask
//	probe        whether containers have started, live and are ready  podref     what events refer to
//	evict        which pods take too much of the host's disk
//	status       what the API is told                                 downward   what pods are told of themselves
//
// It sees the outside through a few small interfaces: PodSource (what should run), Runtime (CRI), host.Host (files,
// hooks, facts), Machine (the state of the node) and status.Sink (the API). It must not know client-go's informers, gRPC,
// virtual-kubelet, or whether the machine is this one.
//
// # Concurrency
//
// Engine.Run owns every goroutine of the engine and joins them before it returns. One main loop takes pod events,
// PLEG events and ticks and never blocks on a pod: all it does is to update maps and wake pod workers. It decides
// nothing before the first complete observation of the runtime. Whatever belongs to one pod happens in the goroutine of
// its worker. When Run's context ends, workers stop where they are and containers live on.
package lifecycle
