// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fakecri is a container runtime in memory for tests: the CRI runtime and image services with containerd's
// manners (name reservation, stop signals that are sent once, kills that only happen while somebody waits, images and
// sandboxes that must exist), with containers that end on command, and with failpoints before and after each effect.
//
// A test makes one with Start, talks to it through Client (a real cri.Client, without a connection in between) or
// through Dial (real gRPC in memory), says how containers behave with Behave, makes them end with Exit, breaks things with
// Inject, Cut and Lose, and looks at the outcome with Container, Containers, Sandboxes and Calls.
//
//	rt := fakecri.Start(t, fakecri.Options{})
//	rt.Behave(fakecri.Selector{Container: "stubborn"}, fakecri.Behaviour{OnTERM: fakecri.TERM{Ignore: true}})
//	hang := rt.Inject(fakecri.Fault{Method: "ContainerStatus", Hang: true, Selector: fakecri.Selector{UID: "a"}})
//	pleg.New(pleg.Options{Runtime: rt.Client(), …})
//	…
//	hang.Remove()
//
// It watches over what no node may ever do, and Start fails the test for it: two live containers of one pod UID and
// name, and containers killed by the stop of their sandbox (see ViolationKind).
//
// # Time
//
// Everything that happens later (a container that ends by itself, a kill after the grace period) has a time by
// Options.Clock, and is made to have happened whenever the runtime is looked at: no goroutine works in the background. With
// the real clock (the default) that suits testing/synctest; a fake clock of k8s.io/utils/clock/testing works as well.
// Times that the runtime reports are shifted by Options.Skew, as if the host's clock were wrong.
//
// # Concurrency
//
// A Runtime may be used by any number of goroutines.
package fakecri
